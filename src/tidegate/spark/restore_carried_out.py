"""Opens the new generation of a job after the restore was checked: first files, then state, then ledger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tidegate.checkpoints.job_layout import QUERIES, generation_folder
from tidegate.core.errors import TidegateError
from tidegate.core.records import Run, SavedQuery, SavepointFormat
from tidegate.core.start_happenings import RestoreMoved
from tidegate.operate.runner import introduce
from tidegate.savepoints.claim import claim
from tidegate.savepoints.fresh import runs_of
from tidegate.savepoints.judgement import Judgement
from tidegate.savepoints.operator_match import OperatorMatch
from tidegate.savepoints.restore import (
    RestoredQuery,
    Restoring,
    commit,
    prepare,
)
from tidegate.savepoints.restoring_sources import places_of
from tidegate.savepoints.rewritten import offsets_of
from tidegate.savepoints.scratch import FOR_TASKS
from tidegate.savepoints.settled import settle
from tidegate.savepoints.state_change import StateChange, lives_by_rows, state_form
from tidegate.savepoints.state_tables import SavedTables
from tidegate.spark.job_plan import JobPlan
from tidegate.spark.query_conf import FORMAT_KEY, PROVIDER_KEY, STORES
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.refusals import not_restored
from tidegate.spark.restore_judged import given_up_by, unopposed
from tidegate.spark.restoring import JobRestore
from tidegate.spark.state.empty import begin_empty
from tidegate.spark.state.plan import describe_new
from tidegate.spark.state.rewrite import begin_operators, rewrite_state
from tidegate.spark.state.rows import Read, count_state, count_tables, expected_state, recorded_tables
from tidegate.spark.supervised import tell_start
from tidegate.spark.task_files import TaskFiles
from tidegate.storages.schemes import Folder


def carry_out(restore: JobRestore, plan: JobPlan, reach: Callable[[str], None]) -> None:
    """Open the new generation. Only with the job's locks held; `reach` is called at each step. After an error the job
    is unchanged, except that a restore that goes back has committed its decided epochs.
    """
    given_up = given_up_by(restore, plan)
    found = unopposed(restore, plan, given_up)
    if given_up is not None and given_up.finish(plan.settings.checkpointing_mode, plan.settings.stop_timeout):
        found = unopposed(restore, plan, given_up_by(restore, plan))  # the sinks have committed more by now
    with ExitStack() as stack:
        aside = None
        if not restore.job_folder.is_local:
            aside = Path(stack.enter_context(TemporaryDirectory(prefix="tidegate-restore-"))).resolve()
        _Carried(restore, plan, found, reach, aside).open()


_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class _Carried:
    """One restore, the program in the new generation, and the judgement of both."""

    restore: JobRestore
    plan: JobPlan
    found: Judgement
    reach: Callable[[str], None]
    aside: Path | None

    def open(self) -> None:
        restoring = self._restoring()
        try:
            checkpoints = prepare(restoring)
            tell_start(RestoreMoved("a savepoint's files, restored"))
            rows = self._state_compared(checkpoints)
            restoring.reach("restore.counted")
            if self.restore.is_claimed:
                claim(self.restore.savepoint, self.restore.target, self.restore.job_folder)
            self._seal()
            commit(restoring)
        except BaseException:
            if self.restore.job_folder.is_local:  # elsewhere the lease may be lost, and a successor at work
                with suppress(TidegateError):  # every start removes the rest; the first error is the one to raise
                    settle(self.restore.job_folder)
            raise
        self._log(rows)

    def _seal(self) -> None:
        """End the older generation. If a driver that was paused has decided an epoch meanwhile, the sinks may be ahead
        of the savepoint: judge again. After an error the next start needs a restore, or `--fresh`.
        """
        given_up = given_up_by(self.restore, self.plan)
        settings = self.plan.settings
        patience = settings.stop_timeout
        if given_up is not None and given_up.seal(settings.checkpointing_mode, patience, self.reach):
            unopposed(self.restore, self.plan, given_up_by(self.restore, self.plan))

    def _restoring(self) -> Restoring:
        plans, matched = self.plan.queries, self.found.matched
        queries = [(plan, matched[plan.query.uid]) for plan in plans if plan.query.uid in matched]
        return Restoring(
            job_folder=self.restore.job_folder,
            savepoint=self.restore.savepoint,
            record=self.restore.target,
            older=self.restore.found,
            aside=self.aside,
            queries=[self._restored(plan, saved) for plan, saved in queries],
            left_behind=self.found.left_behind,
            link=self.restore.wish.claim and self.restore.savepoint.place is None,
            rewind=self.restore.wish.rewind,
            renamed=self.restore.wish.renamed,
            program=tuple(plan.query.uid for plan in plans),
            logs=self.restore.logs,
            rewrite=self._rewritten,
            reach=self.reach,
            tell=tell_start,
        )

    def _restored(self, plan: QueryPlan, saved: SavedQuery) -> RestoredQuery:
        found = self.found
        query, empty, accepted = plan.query, plan.query.uid in found.emptied, found.accepted.get(plan.query.uid)
        match, files = found.operators.get(query.uid), self._files(query.uid)
        places = places_of(query.sources, saved, self.restore.wish)
        number = max([saved.done.run, *runs_of(self.restore.job_folder, query.uid)])
        token, host, process, since = introduce()
        return RestoredQuery(
            uid=query.uid,
            saved=saved,
            start=query.start(first_epoch=1 if empty else saved.done.epoch + 1),
            accepted=None if accepted is None else msgspec.structs.replace(accepted, at=since),
            run=Run(run=number, token=token, host=host, process=process, since=since),
            places=places,
            operators=match.places if match is not None and match.moves_files else None,
            in_job=frozenset(uid for uid, sink in plan.sinks.items() if sink.stays_in_job),
            make_empty=partial(begin_empty, self.plan.session, plan, saved, places, files) if empty else None,
        )

    def _rewritten(self, query: RestoredQuery, checkpoint: Path) -> None:
        found, session = self.found, self.plan.session
        plan = next(each for each in self.plan.queries if each.query.uid == query.uid)
        change, match = found.rewritten.get(query.uid), found.operators.get(query.uid)
        tables, form = self._tables(query.saved, match), state_form(query.saved)
        if change is None and tables is not None and form is not None and query.make_empty is None:
            change = StateChange(form, form)
        if change is not None:
            final = self._final(query.uid).for_spark()
            files = self._files(query.uid)
            rewrite_state(session, plan.conf, checkpoint, final, query.saved, change, tell_start, files, tables)
        form = form if change is None else change.after
        if match is not None and match.new and form is not None:
            describe_new(session, plan, offsets_of(checkpoint, query.epoch), match.new, checkpoint)
            begin_operators(session, plan.conf, checkpoint, query.saved, match.new, form, tell_start)

    def _final(self, uid: str) -> Folder:
        """The place of a query's checkpoint in the new generation. Off a disk its files are there before it counts."""
        return generation_folder(self.restore.job_folder / QUERIES / uid, self.restore.target.generation) / "spark"

    def _files(self, uid: str) -> TaskFiles:
        """For tasks that read or write files of this restore. In the folder of the new generation: what a killed
        restore leaves there is removed with it.
        """
        place = self._final(uid).parent / FOR_TASKS
        return TaskFiles.of(self.plan.session, place, lambda path: tell_start(RestoreMoved(f"{path}, for tasks")))

    def _read(self, uid: str) -> Read:
        """How tasks read the new checkpoint of a query. For tasks elsewhere it is in its place already."""
        files = self._files(uid)
        if files.place is None:
            return files.read
        return lambda _checkpoint: nullcontext(self._final(uid).for_spark())

    def _state_compared(self, checkpoints: Mapping[str, Path]) -> Mapping[str, Mapping[str, int]]:
        """The number of rows of state, by query and operator. Raises if a number differs from that in the savepoint."""
        found, session, savepoint = self.found, self.plan.session, self.restore.savepoint
        counted: dict[str, Mapping[str, int]] = {}
        for plan in self.plan.queries:
            saved = found.matched.get(plan.query.uid)
            if saved is None or not saved.operators or plan.query.uid in found.emptied:
                continue
            match = found.operators.get(plan.query.uid)
            tables = self._tables(saved, match)
            read = self._read(plan.query.uid)
            if tables is not None:
                from tidegate.savepoints.canonical import count_rows  # imports that no other start needs

                wanted = {**count_rows(tables, saved), **recorded_tables(saved)}
                rows = count_tables(session, checkpoints[plan.query.uid], saved, plan.conf, tell_start, read)
            else:
                name = f"{QUERIES}/{saved.done.query}/spark"
                conf = _conf_before(plan.conf, found.rewritten.get(plan.query.uid))
                numbers = {} if match is None else match.numbers
                before, sent = savepoint.folder / name, self._files(plan.query.uid).read
                wanted = expected_state(session, before, saved, conf, tell_start, numbers, sent)
                rows = count_state(session, checkpoints[plan.query.uid], saved, plan.conf, tell_start, read)
            if rows != wanted:
                whole = f"`tidegate savepoint verify {savepoint.found_at}` tells whether it is whole"
                other = f"{whole}; if so restore another one (`tidegate savepoint ls DIR`)"
                raise not_restored(f"rows of state: {wanted}", f"{rows}", str(plan.query), other)
            counted[plan.query.uid] = rows
            tell_start(RestoreMoved(f"query {plan.query.uid}, state compared with the savepoint"))
        return counted

    def _tables(self, saved: SavedQuery, match: OperatorMatch | None) -> SavedTables | None:
        """The query's state as tables; None if it is in Spark's files, or if there is none. Whether a savepoint stores
        tables depends on all of the query's operators, also on those that are left behind.
        """
        is_canonical = self.restore.savepoint.record.format is SavepointFormat.CANONICAL
        every = [*saved.operators, *(() if match is None else match.left)]
        if not is_canonical or not saved.operators or not lives_by_rows(every):
            return None
        return SavedTables(str(self.restore.savepoint.folder), {} if match is None else match.numbers)

    def _log(self, rows: Mapping[str, Mapping[str, int]]) -> None:
        found = self.found
        job, where = (
            f"job {self.restore.target.name}, generation {self.restore.target.generation}",
            self.restore.savepoint.found_at,
        )
        for uid, saved in found.matched.items():
            uncounted = "not counted" if saved.operators and uid not in found.emptied else "none"
            state = ", ".join(f"{name}: {count}" for name, count in rows.get(uid, {}).items()) or uncounted
            _LOG.info(
                "%s: query %s resumes after epoch %d of savepoint %s; rows of state: %s",
                *(job, uid, saved.done.epoch, where, state),
            )
        for change in found.changes:
            _LOG.warning("%s: %s", job, change)


def _conf_before(conf: Mapping[str, str], change: StateChange | None) -> Mapping[str, str]:
    """The Spark settings for reading the state in the savepoint: `conf` with the savepoint's own state store.

    `conf`: the settings of the restored query. `change`: the change of the state store in this restore; None if the
    store stays.
    """
    if change is None:
        return conf
    store = STORES[change.before.backend]
    return {**conf, PROVIDER_KEY: store.provider, FORMAT_KEY: store.checkpoint_format}
