"""A job of this program as HTML, for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.checkpoints.job_layout import job_names
from tidegate.core.levels import Level
from tidegate.operate.client import JobClient
from tidegate.operate.graph import graph_of
from tidegate.operate.notebook import html_of_declaration
from tidegate.operate.sinks import describe
from tidegate.operate.status import QueryView
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.levels import level_of
from tidegate.spark.sources.declaring import DeclaredSource
from tidegate.storages.schemes import Folder


def job_html(
    folder: Folder, queries: Sequence[DeclaredQuery], inputs: Mapping[str, DeclaredSource], mode: Level
) -> str:
    """The job as its folder shows it; before its first start, what the program has declared so far. `mode`: the level
    of the job."""
    if folder.name in job_names(folder.parent):
        return JobClient(folder).as_html()
    views = [_view(each) for each in queries]
    sinks = [describe(each.uid, sink, level_of(sink, mode)) for each in queries for sink in each.sinks]
    return html_of_declaration(folder.name, graph_of(views, [each.described for each in inputs.values()], sinks))


def _view(query: DeclaredQuery) -> QueryView:
    sinks = tuple(sink.uid for sink in query.sinks)
    return QueryView(uid=query.uid, generation=1, sources=query.sources, sinks=sinks, finished=-1, beat=None)
