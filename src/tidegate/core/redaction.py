"""Removes secrets from texts. They are recognized by their value, by the name before them, and by their form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from urllib.parse import quote, quote_plus

HIDDEN = "***"

_WHOLE_WORD_BELOW = 8
"""A shorter secret is hidden only as a separate word: it may be a part of ordinary words."""
_VARIABLE_AT_LEAST = 6
"""A shorter value of the environment is a switch or a number, for any name of its variable."""


class _CompiledLater:
    """A pattern that is compiled when it is first used: many commands hide nothing, and to compile takes time. No
    dataclass, for the same reason: the import of `dataclasses` takes more.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)


class Secrets:
    """The secrets that this process knows. Code that reads a secret adds it here. From then on no text shows it."""

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
        """Add the values of all environment variables whose name suggests a secret."""
        for name, value in environment.items():
            if is_secret(name) and name not in _FOLDERS and len(value) >= _VARIABLE_AT_LEAST:
                self.add(value)

    def hide(self, text: str) -> str:
        """`text` without known secrets, and without those that a name or form shows."""
        known = self._known()
        shown = text if known is None else known.sub(HIDDEN, text)
        shown = _PRIVATE_KEY.compiled.sub(HIDDEN, shown)
        shown = _PASSWORD_OF_URL.compiled.sub(rf"\g<before>{HIDDEN}@", shown)
        shown = _LOGIN_OF_HTTP.compiled.sub(rf"\g<before>{HIDDEN}", shown)
        shown = _OPTION_OF_COMMAND.compiled.sub(rf"\g<before>{HIDDEN}", shown)
        return _NAMED.compiled.sub(_hidden_if_secret, shown)

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
"""The secrets of this process. (A separate set for each client would not hide a secret in another client's error.)"""


def is_secret(name: str) -> bool:
    """True if an option or variable of this name holds a secret. False if the value only tells where a secret is."""
    return _SAYS_SECRET.compiled.search(name) is not None and _SAYS_WHERE.compiled.search(name) is None


def may_be_secret(name: str) -> bool:
    """True if an option of this name might hold a secret. Used for values in files: there a repeated request for the
    value costs less than a stored secret. So a doubt is enough, also about names that only tell where a secret is.
    """
    return _SAYS_SECRET.compiled.search(name) is not None or _SAYS_DOUBT.compiled.search(name) is not None


_SECRET_WORDS = (
    r"(?:passw(?:or)?d|passphrase|passcode|(?<![a-z])pass(?![a-z])|pwd(?![\w.-])|secret|token|credential|jaas|key[._-]?pem|bearer[._-]?config"
    r"|(?:api|access|private|account|shared|signing)[._-]?key)"
)
_SAYS_SECRET = _CompiledLater(_SECRET_WORDS, re.IGNORECASE)
_SAYS_DOUBT = _CompiledLater(r"pass|private|bearer|\bpem\b|\bkey$", re.IGNORECASE)
_SAYS_WHERE = _CompiledLater(
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


# A quoted value may be cut off at the end of the text. No part is unbounded in front of a required part, so the time is
# linear in the length of the text. Only names that may belong to a secret match: another name must not consume a
# secret's name in its value, as in `ValueError: password=...`.
_NAMED = _CompiledLater(
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
_PASSWORD_OF_URL = _CompiledLater(
    r"(?P<before>(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s:/@\"'<>]{0,200}:)[^\s\"'<>]{1,500}@"
)
_LOGIN_OF_HTTP = _CompiledLater(r"(?P<before>\b(?:bearer|basic)\s{1,4})[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
_OPTION_OF_COMMAND = _CompiledLater(
    r"(?P<before>--?[\w-]{0,40}(?:password|passphrase|secret|token)\s{1,4})(?!-)\S+", re.IGNORECASE
)
_PRIVATE_KEY = _CompiledLater(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
