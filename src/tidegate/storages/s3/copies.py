"""Copies that the server makes of an object, of which an answer may be lost: looked for first, then sent again.

No request of S3 ends a copy. One that got no answer may still be carried out, also when its source is removed
meanwhile. So a copy is sent again only if its object has not appeared for some time, and only a few times.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.storages.s3.errors import S3_ERRORS, is_passing, is_surely_not_done

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_LOG = logging.getLogger("tidegate")

AT_MOST = 3
"""Copies of an object that one call sends, of which none got an answer."""

SECONDS = 1.0
"""An object of a copy without an answer is looked for so long, and longer if it is large."""

_BYTES_A_SECOND = 32 << 20
"""A slow copy inside a store."""


class SentCopies:
    """The copies that one call sends of an object. Each call of this object is one try: to send, or to look.

    `send`: sends the copy; False if there is no source. `has_landed`: looks at the target. `is_in_doubt`: true if an
    earlier call got no answer.
    """

    def __init__(
        self,
        where: str,
        size_bytes: int,
        send: Callable[[S3Client], bool],
        has_landed: Callable[[], bool],
        *,
        is_in_doubt: bool,
    ) -> None:
        self._where = where
        self._seconds = SECONDS + size_bytes / _BYTES_A_SECOND
        self._send = send
        self._has_landed = has_landed
        self._unanswered: Exception | None = None
        self._looks_until = 0.0
        self._sent = 0
        self.is_in_doubt = is_in_doubt

    def __call__(self, client: S3Client) -> bool:
        if self.is_in_doubt and self._has_landed():
            return True
        if self._unanswered is not None:
            if self._sent == AT_MOST or time.monotonic() < self._looks_until:
                raise self._unanswered  # it comes again after a pause, with another look
            _LOG.warning(
                "%s: a copy got no answer, and its object has not appeared; it is sent again. The first one may still"
                " be carried out, later: do not compact this file before that",
                self._where,
                extra={"event": "CopySentAgain"},
            )
        return self._copied(client)

    def _copied(self, client: S3Client) -> bool:
        self._unanswered = None
        try:
            return self._send(client)
        except S3_ERRORS as error:
            if is_passing(error) and not is_surely_not_done(error):
                self._sent += 1
                self._unanswered, self.is_in_doubt = error, True
                self._looks_until = time.monotonic() + self._seconds
            raise
