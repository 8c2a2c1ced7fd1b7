"""What the plan of the running epoch says of its state, read in the JVM in one call.

Through Py4J each node of a plan costs several round trips: about 100 an epoch for one aggregation (12 ms; 2 ms here).
The class is compiled when a query starts, by Janino, the compiler that Spark ships for the code it generates.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_SOURCE = """
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo;
import org.apache.spark.util.AccumulatorV2;

public class TidegateLook {
    private static final String ROWS_ARE_TRACKED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows";

    public String state(SparkPlan plan, boolean namesFiles) {
        StringBuilder lines = new StringBuilder();
        addState(plan, namesFiles, lines);
        return lines.toString();
    }

    private void addState(SparkPlan node, boolean namesFiles, StringBuilder lines) {
        scala.collection.Seq children = (scala.collection.Seq) node.children();
        for (int i = 0; i < children.size(); i++) {
            addState((SparkPlan) children.apply(i), namesFiles, lines);
        }
        if (node instanceof StateStoreWriter) {
            addRows(node, lines);
            if (namesFiles) {
                addIds((StateStoreWriter) node, lines);
            }
        }
    }

    private void addRows(SparkPlan node, StringBuilder lines) {
        if (node.conf().getConfString(ROWS_ARE_TRACKED, "true").equalsIgnoreCase("false")) {
            return;
        }
        SparkPlan input = (SparkPlan) ((scala.collection.Seq) node.children()).apply(0);
        lines.append("rows ").append(((StateStoreWriter) node).getStateInfo().operatorId());
        lines.append(' ').append(input.outputPartitioning().numPartitions());
        lines.append(' ').append(metric(node, "numStateStoreInstances"));
        lines.append(' ').append(metric(node, "numTotalStateRows")).append('\\n');
    }

    private Object metric(SparkPlan node, String name) {
        return ((AccumulatorV2) node.longMetric(name)).value();
    }

    private void addIds(StateStoreWriter writer, StringBuilder lines) {
        long operator = writer.getStateInfo().operatorId();
        java.util.Iterator successes = writer.checkpointInfoAccumulator().value().iterator();
        while (successes.hasNext()) {
            int partition = ((StatefulOpStateStoreCheckpointInfo) successes.next()).partitionId();
            lines.append("success ").append(operator).append(' ').append(partition).append('\\n');
        }
        StatefulOpStateStoreCheckpointInfo[] infos = writer.getStateStoreCheckpointInfo();
        for (int i = 0; i < infos.length; i++) {
            lines.append("ids ").append(operator).append(' ').append(infos[i].partitionId());
            String[] ids = (String[]) infos[i].stateStoreCkptId().get();
            for (int j = 0; j < ids.length; j++) {
                lines.append(' ').append(ids[j]);
            }
            lines.append('\\n');
        }
    }
}
"""


@dataclass(slots=True)
class OperatorState:
    """One operator with state: the ids of its state files by partition, and how often each partition succeeded. `rows`
    is None where Spark's count is not that of the state."""

    ids: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    successes: Counter[int] = field(default_factory=Counter[int])
    rows: int | None = None


class Look:
    """The compiled class, for the plans of one JVM."""

    def __init__(self, jvm: Any, class_loader: Any) -> None:
        compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(class_loader)
        compiler.cook(_SOURCE)
        self._look: Any = compiler.getClassLoader().loadClass("TidegateLook").newInstance()

    def state_of(self, plan: Any, *, names_files: bool) -> dict[str, OperatorState]:
        """The operators with state in an executed plan, by their ids. Read after the epoch's one action."""
        found: dict[str, OperatorState] = {}
        for line in self._look.state(plan, names_files).splitlines():
            what, operator, number, *rest = line.split(" ")
            state = found.setdefault(operator, OperatorState())
            match what:
                case "success":
                    state.successes[int(number)] += 1
                case "ids":
                    state.ids[int(number)] = rest
                case _:
                    state.rows = _rows(int(number), *map(int, rest))
        return found


def _rows(partitions: int, stores: int, rows: int) -> int | None:
    """Every task adds its stores and their rows once, a join one store or four. None where a task was computed twice,
    after its output was lost: then its rows are counted twice."""
    return rows if stores in (partitions, 4 * partitions) else None
