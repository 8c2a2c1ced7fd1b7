"""Stories of several starts: what has to be refused is refused, is put back, and the job goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.campaign.drivers import CampaignFailed
from tests.campaign.outputs import read_outputs

if TYPE_CHECKING:
    from tests.campaign.field import Field


def _second_driver(field: Field) -> None:
    """Refused while the first one lives; the first one does not notice."""
    field.wait_running()
    second = field.stable.take()
    _expect({"TG-DRIVER-ALIVE"}, field.refused(second))
    field.feed()
    field.catch_up()
    field.stable.give_back(second)


def _copied_checkpoint(field: Field) -> None:
    """A copy of the checkpoint folder runs after the job itself has gone on."""
    copy = field.places.root / "copy"
    field.stop()
    shutil.copytree(field.places.checkpoints, copy)
    _go_on(field)
    _refuse(field, {"TG-SINK-AHEAD", "TG-SECOND-TIMELINE"}, copy)
    shutil.rmtree(copy)
    field.go()


def _deleted_checkpoint(field: Field) -> None:
    """Without its checkpoint folder a job of the same name is another job to its sinks."""
    aside = field.places.root / "aside"
    field.stop()
    field.places.checkpoints.rename(aside)
    _refuse(field, {"TG-SINK-OF-ANOTHER-JOB"})
    shutil.rmtree(field.places.checkpoints)
    aside.rename(field.places.checkpoints)
    field.go()


def _older_checkpoint(field: Field) -> None:
    """The checkpoint folder is put back from an older copy: the sinks are ahead of it."""
    older, aside = field.places.root / "older", field.places.root / "aside"
    field.stop()
    shutil.copytree(field.places.checkpoints, older)
    _go_on(field)
    field.places.checkpoints.rename(aside)
    older.rename(field.places.checkpoints)
    _refuse(field, {"TG-SINK-AHEAD"})
    shutil.rmtree(field.places.checkpoints)
    aside.rename(field.places.checkpoints)
    field.go()


def _older_database(field: Field) -> None:
    """The database is put back from an older copy: it is behind the ledger."""
    database = field.places.database
    older, aside = database.with_name("older.db"), database.with_name("aside.db")
    field.stop()
    shutil.copy(database, older)
    _go_on(field)
    database.rename(aside)
    older.rename(database)
    _refuse(field, {"TG-SINK-BEHIND"})
    aside.rename(database)
    field.go()


SCENARIOS: Mapping[str, Callable[[Field], None]] = {
    "two drivers at once": _second_driver,
    "the checkpoint is copied and run from the copy": _copied_checkpoint,
    "the checkpoint is deleted": _deleted_checkpoint,
    "the checkpoint is restored from an older copy": _older_checkpoint,
    "the database is restored from an older copy": _older_database,
}


def _go_on(field: Field) -> None:
    """Two epochs more, then a clean stop."""
    field.go()
    field.feed_slowly(2)
    field.stop()


def _refuse(field: Field, codes: set[str], checkpoints: Path | None = None) -> None:
    """A start is refused with one of the codes, and nothing that is visible changes."""
    before = read_outputs(field.places)
    _expect(codes, field.refused(field.driver, checkpoints))
    if read_outputs(field.places) != before:
        raise CampaignFailed("a refused start has changed what is visible")


def _expect(codes: set[str], found: str) -> None:
    if found not in codes:
        raise CampaignFailed(f"refused with {found} instead of {' or '.join(sorted(codes))}")
