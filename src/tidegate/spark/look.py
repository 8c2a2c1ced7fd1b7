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

public class TidegateLook {
    public String stateIds(SparkPlan plan) {
        StringBuilder lines = new StringBuilder();
        addStateIds(plan, lines);
        return lines.toString();
    }

    private void addStateIds(SparkPlan node, StringBuilder lines) {
        scala.collection.Seq children = (scala.collection.Seq) node.children();
        for (int i = 0; i < children.size(); i++) {
            addStateIds((SparkPlan) children.apply(i), lines);
        }
        if (!(node instanceof StateStoreWriter)) {
            return;
        }
        StateStoreWriter writer = (StateStoreWriter) node;
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
    """One operator with state: the ids of its state files by partition, and how often each partition succeeded."""

    ids: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    successes: Counter[int] = field(default_factory=Counter[int])


class Look:
    """The compiled class, for the plans of one JVM."""

    def __init__(self, jvm: Any, class_loader: Any) -> None:
        compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(class_loader)
        compiler.cook(_SOURCE)
        self._look: Any = compiler.getClassLoader().loadClass("TidegateLook").newInstance()

    def state_of(self, plan: Any) -> dict[str, OperatorState]:
        """The operators with state in an executed plan, by their ids. Read after the epoch's one action."""
        found: dict[str, OperatorState] = {}
        for line in self._look.stateIds(plan).splitlines():
            what, operator, partition, *ids = line.split(" ")
            state = found.setdefault(operator, OperatorState())
            if what == "success":
                state.successes[int(partition)] += 1
            else:
                state.ids[int(partition)] = ids
        return found
