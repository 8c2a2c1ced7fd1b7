"""Flink's jars: programs of the folders that the operator allows, and their start."""

from __future__ import annotations

import secrets
import shlex
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.web.flink.jar_shapes import (
    CheckTicket,
    JarCheckAsked,
    JarFile,
    JarList,
    JarRun,
    JarRunAsked,
    JarRunQuery,
)
from tidegate.web.places import allowed
from tidegate.web.problems import RequestProblem, problem_of, refusal
from tidegate.web.programs import StartOrder, check, problems_of, program, programs, start
from tidegate.web.routing import RouteRequest
from tidegate.web.site import flink_id
from tidegate.web.works import PageWork

if TYPE_CHECKING:
    from tidegate.operate import RestoreCheck

_CHECK = "check"
_NO_ENTRY_CLASS = "entryClass is ignored: a Python program has none"


def get_jars(asked: RouteRequest) -> JarList:
    """`GET /jars`."""
    found = programs(asked.site)
    return JarList(
        address=f"http://{asked.headers.get('host', '')}",
        files=tuple(JarFile(id=each.id, name=each.path.name, uploaded=int(each.changed_at * 1_000)) for each in found),
    )


def post_run(asked: RouteRequest) -> JarRun:
    """`POST /jars/:id/run`. Answers once the job runs."""
    body = _whole(asked.query, asked.body)
    started = start(asked.site, _order(asked, body))
    asked.site.watch.forget()
    if started.job is None:
        raise refusal(f"the program has started no job: {started.text}", f"see the log {started.log}")
    notes = [_NO_ENTRY_CLASS] if body.entryClass else []
    return JarRun(
        jobid=flink_id(asked.site.client(started.job).view().job_id),
        name=started.job,
        process=started.process,
        log=started.log,
        notes=(*notes, *filter(None, [started.text])),
    )


def post_check(asked: RouteRequest) -> CheckTicket:
    """`POST /jars/:id/check`: what `tidegate savepoint check` says of this start."""
    body: JarCheckAsked = asked.body
    order = _order(asked, body)
    what = (_CHECK, msgspec.json.encode((order.program.id, msgspec.structs.replace(body, id=None))))
    return _ticket(asked.site.works.begin(body.id or secrets.token_hex(16), what, lambda: check(asked.site, order)))


def get_check(asked: RouteRequest) -> CheckTicket:
    """`GET /jars/:id/check/:ticket`."""
    program(asked.site, asked.path["jar"])
    return _ticket(asked.site.works.known(asked.path["ticket"], _CHECK))


def _order(asked: RouteRequest, body: JarRunAsked) -> StartOrder:
    chosen = program(asked.site, asked.path["jar"])
    return StartOrder(
        program=chosen,
        arguments=[*(body.programArgsList or []), *_split(body.programArgs or "")],
        parallelism=body.parallelism,
        savepoint=None if body.savepointPath is None else allowed(asked.site, body.savepointPath),
        allow_non_restored_state=bool(body.allowNonRestoredState),
        claim=(body.claimMode or body.restoreMode) == "CLAIM",
    )


def _whole(query: JarRunQuery, body: JarRunAsked) -> JarRunAsked:
    """The body, and the parameters that it leaves out."""
    from_query = JarRunAsked(
        entryClass=query.entry_class,
        programArgs=query.program_args,
        programArgsList=None if query.programArg is None else query.programArg.split(","),
        parallelism=query.parallelism,
        savepointPath=query.savepointPath,
        allowNonRestoredState=query.allowNonRestoredState,
        claimMode=query.claimMode,
        restoreMode=query.restoreMode,
    )
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    return msgspec.structs.replace(from_query, **given)


def _split(text: str) -> list[str]:
    if "\0" in text:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, "no argument of a program has a NUL")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, f"programArgs cannot be split as a shell does: {error}") from None


def _ticket(work: PageWork) -> CheckTicket:
    if not work.result.done():
        return CheckTicket(id=work.id, state="pending")
    error = work.result.exception()
    if isinstance(error, TidegateError):
        return CheckTicket(id=work.id, state="failed", problem=problem_of(error))
    if isinstance(error, RequestProblem):
        return CheckTicket(id=work.id, state="failed", problem=error.problem)
    found: RestoreCheck = work.result.result()
    return CheckTicket(
        id=work.id,
        state="done",
        verdict=found.said.verdict,
        changes=found.said.changes,
        reasons=tuple(problems_of(found)),
        epochs=found.said.epochs,
    )
