"""An ingest log on a storage that is not a local disk: a sequence of pieces, each put if absent where the one before
it ends.

A lease does not keep a paused driver away, so the log has to. Opening it has two steps: the opener writes its token to
*owner*, and puts an empty piece at the end that it finds. If another piece is there first, that one counts, and the
opener looks again. So no late put can come behind the opening, and an append meets no other writer: where it does, or
where *owner* has another token after a put, the log has been opened again, and this process stops without its rows.
The look at *owner* is needed, because a trim makes the names of old pieces free: a late put may succeed there. What it
has written lies below the begin of the log, or belongs to a log that was given up, and the next opening removes it.

A restore may put another log in the place of this one (`ingest_standing`). Before its first append a process looks
whether one is prepared, and stops. Later it stops because the restore has written its own token to *owner*.
"""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_right
from collections.abc import Sequence

from tidegate.checkpoints.ingest_frames import Frame, Payload, encode_frame
from tidegate.checkpoints.ingest_layout import IngestPosition
from tidegate.checkpoints.ingest_piece import TOKEN_BYTES, Piece, PieceSlice, decode_piece, encode_piece, piece_name
from tidegate.checkpoints.ingest_read import require_between
from tidegate.checkpoints.ingest_standing import (
    LOG,
    OWNER,
    LoggedPieces,
    is_being_replaced,
    name_of_log,
    offset_of,
    remove_unnamed,
    standing_in,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.opening import open_storage
from tidegate.storages.refusals import lease_lost
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

PIECES_TO_TRIM = 64
"""A trim removes at least so many pieces, because it needs a list and some reads to see what is needed."""


class PieceLog:
    """An `IngestLog` in pieces. `storage`: the one of `folder`, if it is open."""

    gather_seconds = 0.1

    def __init__(self, folder: Folder, pieces_to_trim: int = PIECES_TO_TRIM, storage: Storage | None = None) -> None:
        """Take over the log in `folder`, or create one. A process that has it open can append nothing more."""
        self._folder = folder
        self._storage = open_storage(folder) if storage is None else storage
        self._pieces_to_trim = pieces_to_trim
        self._writer = secrets.token_bytes(TOKEN_BYTES)
        self._lock = threading.Lock()
        self._is_closed = False
        self._loss = ""
        self._may_append = False
        self._storage.remove_leftovers("")
        self._storage.replace(OWNER, self._writer)
        name = self._named()
        self._pieces = self._storage.below(name)
        self._standing = self._taken_over(name)
        """It is replaced as a whole, under the lock. So a reader needs no lock, and waits for no put."""
        self._end = self._standing.end
        self._remove_surplus()
        remove_unnamed(self._storage)

    @property
    def begin(self) -> IngestPosition:
        return self._standing.begin

    @property
    def end(self) -> IngestPosition:
        return self._end

    def append(self, lines: Sequence[bytes]) -> IngestPosition:
        return self.append_payload(Payload.of_lines(lines))

    def append_payload(self, payload: Payload) -> IngestPosition:
        if payload.rows:
            with self._lock:
                self._end = self._put(payload, self.begin)
        return self._end

    def last_frame(self) -> Frame | None:
        standing = self._standing
        last = standing.last_with_rows()
        if last is None:
            return None
        *_, frame = (frame for part in standing.parts(last, standing.end, "the last frame") for frame in part.frames())
        return frame

    def require(self, wanted: IngestPosition, where: str) -> None:
        require_between(self.begin, self._end, wanted, f"{where}, {self._folder}")

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> list[PieceSlice]:
        return self._standing.parts(begin, end, where)

    def is_worth_a_trim(self, before: IngestPosition) -> bool:
        return self._unneeded(before) >= self._pieces_to_trim

    def trim(self, before: IngestPosition) -> None:
        """A piece without rows says where the log begins now. Then the older ones are removed."""
        with self._lock:
            begin = self._standing.places[self._unneeded(before)]
            if begin.offset > self.begin.offset:
                self._put(_NOTHING, begin)
        self._remove_surplus()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True

    # --- opening -------------------------------------------------------------------------------------------

    def _named(self) -> str:
        """The folder of the pieces. Of two processes that begin a log at the same time one decides it."""
        found = name_of_log(self._storage)
        if found is None:
            self._storage.put_if_absent(LOG, secrets.token_hex(4).encode())
            found = name_of_log(self._storage)
        if found is None:
            raise self._lost("it was removed")
        return found

    def _taken_over(self, name: str) -> LoggedPieces:
        """The log behind the piece of this opening."""
        self._pieces.remove_leftovers("")
        for _ in range(_LOOKS_AT_MOST):
            self._standing = standing_in(self._folder, self._storage, name)
            if self._created(_NOTHING, self.begin):
                self._check_owner()
                return self._standing
        raise self._lost(f"its end has moved in {_LOOKS_AT_MOST} looks")

    def _remove_surplus(self) -> None:
        """Remove the pieces below the begin of the log, which a piece names already."""
        standing = self._standing
        surplus = [each for each in standing.places if each.offset < standing.begin.offset]
        if surplus:
            self._pieces.delete_all([piece_name(each) for each in surplus])
            with self._lock:
                now = self._standing
                kept = [each for each in now.places if each.offset >= standing.begin.offset]
                self._standing = LoggedPieces(now.folder, now.begin, kept)

    # --- pieces --------------------------------------------------------------------------------------------

    def _put(self, payload: Payload, begin: IngestPosition) -> IngestPosition:
        """Put a piece at the end of a log that begins at `begin`, and return the new end. Raises LEASE_LOST if the log
        was opened again.
        """
        if self._loss:
            raise self._lost(self._loss)
        if self._is_closed:
            raise TidegateError(
                Code.STORAGE_UNUSABLE,
                expected="to append to the ingest log",
                found="it is closed",
                where=str(self._folder),
                next_step="start the job again, which opens it",
            )
        if not self._may_append and is_being_replaced(self._storage):
            raise self._lost("a restore puts another log in its place")
        self._may_append = True
        if not self._created(payload, begin):
            raise self._lost(f"another process has written {piece_name(self._standing.places[-1])}")
        self._check_owner()
        return self._standing.places[-1]

    def _check_owner(self) -> None:
        if self._storage.peek(OWNER) != self._writer:
            raise self._lost("another process has opened it since")

    def _created(self, payload: Payload, kept_from: IngestPosition) -> bool:
        """Put a piece if there is none. False if the log has to continue behind a piece of another process."""
        while True:
            begin = self._standing.places[-1]
            frame, end = encode_frame(begin, payload)
            name, kept = piece_name(begin), max(kept_from, self.begin, key=offset_of)
            if self._pieces.put_if_absent(name, encode_piece(self._writer, kept, frame)):
                self._go_on_at(end, kept)
                return True
            data = self._pieces.read(name)
            found = None if data is None else decode_piece(data, name, self._pieces.where(name))
            if found is None:
                return False
            is_own = found.writer == self._writer and found.frames[-1].payload == payload.data
            if not is_own and not self._may_pass(found):
                return False
            self._go_on_at(found.end, found.kept_from)
            if is_own:  # an earlier try, which ended with an error, has come through
                return True

    def _may_pass(self, found: Piece) -> bool:
        """True for an empty piece of an earlier trim, which ended with an error and came through. True for that of an
        opener that was paused: it will see this writer's token, and stop.
        """
        if any(frame.rows for frame in found.frames):
            return False
        return found.writer == self._writer or self._storage.peek(OWNER) == self._writer

    def _go_on_at(self, end: IngestPosition, begin: IngestPosition) -> None:
        now = self._standing
        self._standing = LoggedPieces(now.folder, max(begin, now.begin, key=offset_of), [*now.places, end])

    def _lost(self, found: str) -> TidegateError:
        self._loss = found
        job = self._folder.parent.parent.name
        return lease_lost(job, f"its ingest log is in other hands: {found}", str(self._folder))

    def _unneeded(self, before: IngestPosition) -> int:
        """How many pieces at the begin of the list end at `before` or earlier. The last one with rows stays."""
        standing = self._standing
        last = standing.last_with_rows()
        until = before.offset if last is None else min(before.offset, last.offset)
        return max(bisect_right(standing.places, until, key=offset_of) - 1, 0)


_NOTHING = Payload(0, b"")
_LOOKS_AT_MOST = 100
