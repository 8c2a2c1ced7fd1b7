"""A job as HTML, for a notebook: its state, its graph, its queries with their lag, its last epochs.

The text is whole in itself: no script, no request, colours of the page around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.failures import Failure
from tidegate.operate.graph import Graph
from tidegate.operate.job_views import JobInfo
from tidegate.operate.picture import svg_of
from tidegate.operate.status import QueryView

EPOCHS_SHOWN = 10
FAILURES_SHOWN = 3

_STYLE = (
    "<style>.tidegate table{border-collapse:collapse;margin:.4em 0 .8em;font-variant-numeric:tabular-nums}"
    ".tidegate th,.tidegate td{padding:.15em .9em .15em 0;text-align:left;border:0;background:none}"
    ".tidegate th{font-weight:600;opacity:.7}.tidegate svg{max-width:100%;height:auto}</style>"
)


def html_of(info: JobInfo, graph: Graph, epochs: Sequence[DoneCheckpoint], failures: Sequence[Failure]) -> str:
    """The display of a job. `epochs`, `failures`: the newest ones, the newest first."""
    return f'{_STYLE}<div class="tidegate">{"".join(_parts(info, graph, epochs, failures))}</div>'


def html_of_declaration(name: str, graph: Graph) -> str:
    """The display of a job that has not started."""
    told = f"<p><b>{escape(name)}</b> declared; it has not started</p>"
    return f'{_STYLE}<div class="tidegate">{told}{svg_of(graph)}</div>'


def _parts(info: JobInfo, graph: Graph, epochs: Sequence[DoneCheckpoint], failures: Sequence[Failure]) -> Iterable[str]:
    job = info.job
    yield f"<p><b>{escape(job.name)}</b> {escape(job.state.label)}: {escape(job.state.meaning)}</p>"
    problem = job.problem or ("" if job.beat is None else job.beat.error)
    if problem:
        yield f"<p><b>problem</b> {escape(problem)}</p>"
    yield svg_of(graph)
    if info.queries:
        yield _table(_QUERY_COLUMNS, (_query_row(query) for query in info.queries))
    if epochs:
        yield _table(_EPOCH_COLUMNS, (_epoch_row(each) for each in epochs))
    for failure in failures:
        yield f"<p>{escape(_failure(failure))}</p>"


_QUERY_COLUMNS = ("query", "epoch", "rows/s", "lag", "ms an epoch", "open transactions", "dead letters")
_EPOCH_COLUMNS = ("done", "query", "epoch", "ms", "rows")


def _query_row(query: QueryView) -> Sequence[str]:
    beat = query.beat
    if beat is None:
        return (query.uid, _epoch(query.finished), "-", "-", "-", "-", "-")
    return (
        query.uid,
        _epoch(max(beat.finished, query.finished)),
        f"{beat.rows_per_second:,.0f}",
        beat.lag or "-",
        _number(beat.epoch_ms),
        str(beat.open_transactions),
        str(beat.dead_letters),
    )


def _epoch_row(each: DoneCheckpoint) -> Sequence[str]:
    return (_moment(each.at), each.query, str(each.epoch), _number(each.duration_ms), f"{each.rows:,}")


def _failure(failure: Failure) -> str:
    then = "no restart" if failure.restart_in_seconds is None else f"restart in {failure.restart_in_seconds:.1f} s"
    return f"{_moment(failure.at)} {failure.told} ({then})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


def _epoch(number: int) -> str:
    return "-" if number < 0 else str(number)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
