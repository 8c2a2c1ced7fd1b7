import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.util.AccumulatorV2;

public class TidegateLook {
    private static final String ROWS_ARE_TRACKED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows";

    private volatile Object committedBefore;

    public void begins(StreamExecution execution) {
        committedBefore = execution.committedOffsets();
    }

    /* Spark makes another object of its committed offsets right after it has written an entry of its commit log. */
    public boolean hasLogged(StreamExecution execution) {
        return execution.committedOffsets() != committedBefore;
    }

    public String state(SparkPlan plan, boolean namesFiles) {
        StringBuilder lines = new StringBuilder();
        addState(plan, namesFiles, lines);
        addRead(plan, lines);
        return lines.toString();
    }

    /* Only a figure: an unknown kind of node must not end the epoch. */
    private void addRead(SparkPlan plan, StringBuilder lines) {
        try {
            lines.append("read 0 ").append(read(plan)).append('\n');
        } catch (RuntimeException unknown) {
            return;
        } catch (LinkageError unknown) {
            return;
        }
    }

    /* The rows that the leaves of streams have given, as Spark counts them. Other leaves are tables beside a stream. */
    private long read(SparkPlan node) {
        if (node instanceof AdaptiveSparkPlanExec) {
            return read(((AdaptiveSparkPlanExec) node).executedPlan());
        }
        if (node instanceof QueryStageExec) {
            return read(((QueryStageExec) node).plan());
        }
        scala.collection.Seq children = (scala.collection.Seq) node.children();
        long sum = 0;
        for (int i = 0; i < children.size(); i++) {
            sum += read((SparkPlan) children.apply(i));
        }
        if (children.isEmpty() && node.metrics().contains("numOutputRows") && node.logicalLink().isDefined()
                && ((LogicalPlan) node.logicalLink().get()).isStreaming()) {
            sum += ((Number) metric(node, "numOutputRows")).longValue();
        }
        return sum;
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
        lines.append(' ').append(metric(node, "numTotalStateRows")).append('\n');
    }

    private Object metric(SparkPlan node, String name) {
        return ((AccumulatorV2) node.longMetric(name)).value();
    }

    private void addIds(StateStoreWriter writer, StringBuilder lines) {
        long operator = writer.getStateInfo().operatorId();
        java.util.Iterator successes = writer.checkpointInfoAccumulator().value().iterator();
        while (successes.hasNext()) {
            int partition = ((StatefulOpStateStoreCheckpointInfo) successes.next()).partitionId();
            lines.append("success ").append(operator).append(' ').append(partition).append('\n');
        }
        StatefulOpStateStoreCheckpointInfo[] infos = writer.getStateStoreCheckpointInfo();
        for (int i = 0; i < infos.length; i++) {
            lines.append("ids ").append(operator).append(' ').append(infos[i].partitionId());
            addIds(infos[i].stateStoreCkptId(), lines);
            if (infos[i].baseStateStoreCkptId().isDefined()) {
                lines.append("base ").append(operator).append(' ').append(infos[i].partitionId());
                addIds(infos[i].baseStateStoreCkptId(), lines);
            }
        }
    }

    private void addIds(scala.Option found, StringBuilder lines) {
        String[] ids = (String[]) found.get();
        for (int j = 0; j < ids.length; j++) {
            lines.append(' ').append(ids[j]);
        }
        lines.append('\n');
    }
}
