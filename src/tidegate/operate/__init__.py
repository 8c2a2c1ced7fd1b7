"""Inspect and control jobs from any process, without Spark.

```python
from tidegate import operate

for job in operate.jobs("checkpoints"): print(job.name, job.state.label) ticket = operate.open("checkpoints",
"wordcount").stop() print(ticket.wait().state) ```

Nothing is printed; errors are `TidegateError`. All returned values are frozen.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.core.records import SavepointFormat
    from tidegate.machine.folder_here import folder_here
    from tidegate.operate.app_check import RestoreCheck, check_restore
    from tidegate.operate.asking import Stage
    from tidegate.operate.beat import Beat, QueryBeat, ShownSetting, read_beat
    from tidegate.operate.beat_reader import BeatReader
    from tidegate.operate.checkpoints_history import ENTRIES_KEPT
    from tidegate.operate.client import (
        JobClient,
        existing_folder,
        jobs,
        list_transactions,
        names,
        open,
    )
    from tidegate.operate.control import Answer, Kind, Outcome
    from tidegate.operate.copy_progress import CopyProgress
    from tidegate.operate.done_checkpoint import DoneCheckpoint, TimedPhase
    from tidegate.operate.epoch_totals import BOUNDS_MS, QueryTotals, Spread
    from tidegate.operate.failures import Failure
    from tidegate.operate.forgettable_job import ForgettableJob, open_to_forget
    from tidegate.operate.forgetting import Clearance
    from tidegate.operate.graph import Graph, GraphEdge, GraphNode, NodeKind, graph_of
    from tidegate.operate.job_log import JobLog
    from tidegate.operate.job_views import BarriersView, JobHistory, JobInfo, JobTotals
    from tidegate.operate.milestones import Milestone, MilestoneKind, beside_failures
    from tidegate.operate.on_yarn import jobs_on_yarn, open_anywhere
    from tidegate.operate.positions import ReachedPosition, position_lines
    from tidegate.operate.saved_views import (
        Archive,
        Difference,
        FolderIs,
        SavedOperatorView,
        SavedQueryView,
        SavepointDetails,
        Savepoints,
        SavepointView,
        Verified,
        compare_savepoints,
        dispose_savepoint,
        export_savepoint,
        import_savepoint,
        inspect_savepoint,
        list_savepoints,
        open_archive,
        stream_savepoint,
        verify_savepoint,
    )
    from tidegate.operate.settle import Ended, Ending
    from tidegate.operate.sinks import DescribedSink
    from tidegate.operate.sources import DescribedSource
    from tidegate.operate.status import JobView, QueryView, State
    from tidegate.operate.tickets import Ticket, TicketState, TicketView
    from tidegate.operate.transactions import Transactions, Waiting
    from tidegate.operate.verdicts import Act, Named, Seen, Verdict
    from tidegate.savepoints.restoring import Restore
    from tidegate.storages.schemes import Folder

_HOMES = {
    "tidegate.core.records": ("SavepointFormat",),
    "tidegate.machine.folder_here": ("folder_here",),
    "tidegate.storages.schemes": ("Folder",),
    "tidegate.operate.app_check": ("RestoreCheck", "check_restore"),
    "tidegate.operate.asking": ("Stage",),
    "tidegate.operate.beat": (
        "Beat",
        "QueryBeat",
        "ShownSetting",
        "read_beat",
    ),
    "tidegate.operate.beat_reader": ("BeatReader",),
    "tidegate.operate.checkpoints_history": ("ENTRIES_KEPT",),
    "tidegate.operate.client": (
        "JobClient",
        "existing_folder",
        "jobs",
        "list_transactions",
        "names",
        "open",
    ),
    "tidegate.operate.control": (
        "Answer",
        "Kind",
        "Outcome",
    ),
    "tidegate.operate.copy_progress": ("CopyProgress",),
    "tidegate.operate.done_checkpoint": (
        "DoneCheckpoint",
        "TimedPhase",
    ),
    "tidegate.operate.epoch_totals": (
        "BOUNDS_MS",
        "QueryTotals",
        "Spread",
    ),
    "tidegate.operate.failures": ("Failure",),
    "tidegate.operate.forgettable_job": ("ForgettableJob", "open_to_forget"),
    "tidegate.operate.forgetting": ("Clearance",),
    "tidegate.operate.graph": (
        "Graph",
        "GraphEdge",
        "GraphNode",
        "NodeKind",
        "graph_of",
    ),
    "tidegate.operate.job_log": ("JobLog",),
    "tidegate.operate.job_views": (
        "BarriersView",
        "JobHistory",
        "JobInfo",
        "JobTotals",
    ),
    "tidegate.operate.milestones": (
        "Milestone",
        "MilestoneKind",
        "beside_failures",
    ),
    "tidegate.operate.on_yarn": (
        "jobs_on_yarn",
        "open_anywhere",
    ),
    "tidegate.operate.positions": (
        "ReachedPosition",
        "position_lines",
    ),
    "tidegate.operate.saved_views": (
        "Archive",
        "Difference",
        "FolderIs",
        "SavedOperatorView",
        "SavedQueryView",
        "SavepointDetails",
        "SavepointView",
        "Savepoints",
        "Verified",
        "compare_savepoints",
        "dispose_savepoint",
        "export_savepoint",
        "import_savepoint",
        "inspect_savepoint",
        "list_savepoints",
        "open_archive",
        "stream_savepoint",
        "verify_savepoint",
    ),
    "tidegate.operate.settle": (
        "Ended",
        "Ending",
    ),
    "tidegate.operate.sinks": ("DescribedSink",),
    "tidegate.operate.sources": ("DescribedSource",),
    "tidegate.operate.status": (
        "JobView",
        "QueryView",
        "State",
    ),
    "tidegate.operate.tickets": (
        "Ticket",
        "TicketState",
        "TicketView",
    ),
    "tidegate.operate.transactions": (
        "Transactions",
        "Waiting",
    ),
    "tidegate.operate.verdicts": (
        "Act",
        "Named",
        "Seen",
        "Verdict",
    ),
    "tidegate.savepoints.restoring": ("Restore",),
}
"""The module of each public name. A name is imported at its first use, so that inspecting a job does not load the code
for actions."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BOUNDS_MS", "ENTRIES_KEPT", "Act", "Answer", "Archive", "BarriersView", "Beat", "BeatReader", "Clearance",
    "CopyProgress", "DescribedSink", "DescribedSource", "Difference", "DoneCheckpoint", "Ended", "Ending", "Failure",
    "Folder", "FolderIs", "ForgettableJob", "Graph", "GraphEdge", "GraphNode", "JobClient", "JobHistory", "JobInfo",
    "JobLog", "JobTotals", "JobView", "Kind", "Milestone", "MilestoneKind", "Named", "NodeKind", "Outcome", "QueryBeat",
    "QueryTotals", "QueryView", "ReachedPosition", "Restore", "RestoreCheck", "SavedOperatorView", "SavedQueryView",
    "SavepointDetails", "SavepointFormat", "SavepointView", "Savepoints", "Seen", "ShownSetting", "Spread", "Stage",
    "State", "Ticket", "TicketState", "TicketView", "TimedPhase", "Transactions", "Verdict", "Verified", "Waiting",
    "beside_failures", "check_restore", "compare_savepoints", "dispose_savepoint", "existing_folder",
    "export_savepoint", "folder_here", "graph_of", "import_savepoint", "inspect_savepoint", "jobs", "jobs_on_yarn",
    "list_savepoints", "list_transactions", "names", "open", "open_anywhere", "open_archive", "open_to_forget",
    "position_lines", "read_beat", "stream_savepoint", "verify_savepoint",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tidegate.operate' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
