"""Keeps secrets out of texts: told by their value, by the name they stand under, and by their form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

HIDDEN = "***"

_WHOLE_WORD_BELOW = 8
"""A shorter secret is hidden only where it stands by itself: it may be a part of ordinary words."""
_VARIABLE_AT_LEAST = 6
"""A shorter value of the environment is a switch or a number, whatever its variable is called."""


class Secrets:
    """The secrets that this process knows. Code that reads a secret adds it here; from then on no text shows it."""

    def __init__(self) -> None:
        self._forms: dict[str, None] = {}
        self._pattern: tuple[int, re.Pattern[str] | None] = (0, None)

    def add(self, value: str) -> None:
        """Hide `value` from now on, also as a literal, in JSON and in a URL, and line by line."""
        for part in {value, *(line for line in value.splitlines() if len(line) >= _WHOLE_WORD_BELOW)}:
            if part.strip():
                for form in (part, repr(part)[1:-1], json.dumps(part)[1:-1], quote(part, safe=""), quote_plus(part)):
                    self._forms[form] = None

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """The variables whose name says that they hold a secret."""
        for name, value in environment.items():
            if is_secret(name) and name not in _FOLDERS and len(value) >= _VARIABLE_AT_LEAST:
                self.add(value)

    def hide(self, text: str) -> str:
        """`text` without any secret that is known, or that its name or form tells."""
        known = self._known()
        shown = text if known is None else known.sub(HIDDEN, text)
        shown = _PRIVATE_KEY.sub(HIDDEN, shown)
        shown = _PASSWORD_OF_URL.sub(rf"\g<before>{HIDDEN}@", shown)
        shown = _LOGIN_OF_HTTP.sub(rf"\g<before>{HIDDEN}", shown)
        shown = _OPTION_OF_COMMAND.sub(rf"\g<before>{HIDDEN}", shown)
        return _NAMED.sub(_hidden_if_secret, shown)

    def _known(self) -> re.Pattern[str] | None:
        count, pattern = self._pattern
        forms = list(self._forms)
        if len(forms) != count:
            forms.sort(key=len, reverse=True)
            pattern = re.compile("|".join(map(_as_pattern, forms)))
            self._pattern = (len(forms), pattern)
        return pattern


_FOLDERS = frozenset({"PWD", "OLDPWD"})

SECRETS = Secrets()
"""Those of this process. (A set of its own for each client would not know what another client's error quotes.)"""


def is_secret(name: str) -> bool:
    """Whether an option or variable of this name holds a secret. Where a secret can be found is none."""
    return _SAYS_SECRET.search(name) is not None and _SAYS_WHERE.search(name) is None


def may_be_secret(name: str) -> bool:
    """Whether an option of this name might hold a secret. For what is kept in a file: there, asking again costs less
    than a secret that is kept, so a doubt is enough, and where a secret can be found is doubtful, too."""
    return _SAYS_SECRET.search(name) is not None or _SAYS_DOUBT.search(name) is not None


_SECRET_WORDS = (
    r"(?:passw(?:or)?d|passphrase|passcode|(?<![a-z])pass(?![a-z])|pwd(?![\w.-])|secret|token|credential|jaas|key[._-]?pem|bearer[._-]?config"
    r"|(?:api|access|private|account|shared|signing)[._-]?key)"
)
_SAYS_SECRET = re.compile(_SECRET_WORDS, re.IGNORECASE)
_SAYS_DOUBT = re.compile(r"pass|private|bearer|\bpem\b|\bkey$", re.IGNORECASE)
_SAYS_WHERE = re.compile(
    r"(location|path|file|url|uri|endpoint|provider|mechanism|timeout|[._-]ms|[._-]id|name|application_credentials)$",
    re.IGNORECASE,
)


def _as_pattern(form: str) -> str:
    escaped = re.escape(form)
    return rf"(?<!\w){escaped}(?!\w)" if len(form) < _WHOLE_WORD_BELOW else escaped


def _hidden_if_secret(found: re.Match[str]) -> str:
    value = found["value"]
    if not is_secret(found["name"]) or value.strip("\\\"'").startswith(("env:", "file:", HIDDEN)):
        return found[0]
    quotes = re.match(r"[bB]?\\*[\"']", value)
    opened = "" if quotes is None else quotes[0]
    return f"{found['name']}{found['glue']}{opened}{HIDDEN}{opened.lstrip('bB')}"


# A quoted value may have been cut off with the text that quotes it: then it ends with the text. No part is unbounded
# in front of something that must follow, so a long text costs no more than its length.
# Only a name that may be of a secret is looked at: another one must not take what is named in its value along, as
# `ValueError: password=...` would.
_NAMED = re.compile(
    rf"""(?<![\w.-])(?P<name>(?=[\w.-]{{0,100}}{_SECRET_WORDS})[\w.-]{{3,100}})
        (?P<glue>\\*["']?\s{{0,8}}[=:]\s{{0,8}})
        (?P<value>
            [bB]?"(?:[^"\\]|\\.)*(?:"|\\?\Z)
          | [bB]?'(?:[^'\\]|\\.)*(?:'|\\?\Z)
          | \\+"(?:[^"\\]|\\[^"])*(?:\\+"|\\?\Z)
          | \\+'(?:[^'\\]|\\[^'])*(?:\\+'|\\?\Z)
          | [^\s,;&"'(){{}}\[\]]+
        )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_PASSWORD_OF_URL = re.compile(
    r"(?P<before>(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s:/@\"'<>]{0,200}:)[^\s\"'<>]{1,500}@"
)
_LOGIN_OF_HTTP = re.compile(r"(?P<before>\b(?:bearer|basic)\s{1,4})[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
_OPTION_OF_COMMAND = re.compile(
    r"(?P<before>--?[\w-]{0,40}(?:password|passphrase|secret|token)\s{1,4})(?!-)\S+", re.IGNORECASE
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
