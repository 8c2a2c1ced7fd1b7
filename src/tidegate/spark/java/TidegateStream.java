import java.util.Base64;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.Unassigned$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Makes a stream whose rows Python workers read. What it decides is asked of the driver's Python. */
public class TidegateStream {
    /** `factory` makes the readers of the tasks. */
    public Dataset rows(
            SparkSession session, String name, StructType schema, PartitionReaderFactory factory, Function python) {
        return org.apache.spark.sql.classic.Dataset.ofRows(session, new StreamingRelationV2(
            scala.Option.empty(), name, new Table(name, schema, factory, new TidegateAsked(python)),
            CaseInsensitiveStringMap.empty(), DataTypeUtils.toAttributes(schema), scala.Option.empty(),
            scala.Option.empty(), scala.Option.empty(), Unassigned$.MODULE$));
    }

    static class Table implements SupportsRead, ScanBuilder, Scan {
        private final String name;
        private final StructType schema;
        private final PartitionReaderFactory factory;
        private final TidegateAsked python;

        Table(String name, StructType schema, PartitionReaderFactory factory, TidegateAsked python) {
            this.name = name;
            this.schema = schema;
            this.factory = factory;
            this.python = python;
        }

        public String name() {
            return this.name;
        }

        public String description() {
            return this.name;
        }

        public StructType schema() {
            return this.schema;
        }

        public StructType readSchema() {
            return this.schema;
        }

        public Set capabilities() {
            return EnumSet.of(TableCapability.MICRO_BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return this;
        }

        public Scan build() {
            return this;
        }

        public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
            return new Stream(this.name, this.factory, this.python);
        }
    }

    static class Stream implements MicroBatchStream, SupportsTriggerAvailableNow {
        private final String name;
        private final PartitionReaderFactory factory;
        private final TidegateAsked python;
        private final String id = UUID.randomUUID().toString();

        Stream(String name, PartitionReaderFactory factory, TidegateAsked python) {
            this.name = name;
            this.factory = factory;
            this.python = python;
        }

        public Offset initialOffset() {
            return position(ask("first", null, null));
        }

        public void prepareForTriggerAvailableNow() {
            ask("catch_up", null, null);
        }

        public Offset latestOffset() {
            throw new UnsupportedOperationException("Spark asks with a position");
        }

        public Offset latestOffset(Offset start, ReadLimit limit) {
            return position(ask("after", start, null));
        }

        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            List parts = (List) ask("parts", start, end).get("parts");
            InputPartition[] found = new InputPartition[parts.size()];
            for (int index = 0; index < found.length; index++) {
                found[index] = new PythonInputPartition(index, Base64.getDecoder().decode((String) parts.get(index)));
            }
            return found;
        }

        public PartitionReaderFactory createReaderFactory() {
            return this.factory;
        }

        public Offset deserializeOffset(String json) {
            return new PythonStreamingSourceOffset(json);
        }

        public ReadLimit getDefaultReadLimit() {
            return ReadLimit.allAvailable();
        }

        public Offset reportLatestOffset() {
            return null;
        }

        public void commit(Offset end) {
        }

        public void stop() {
            ask("stop", null, null);
        }

        public String toString() {
            return this.name;
        }

        private Offset position(Map answer) {
            return new PythonStreamingSourceOffset((String) answer.get("position"));
        }

        private Map ask(String what, Offset start, Offset end) {
            Map given = new HashMap();
            given.put("stream", this.id);
            given.put("start", start == null ? null : start.json());
            given.put("end", end == null ? null : end.json());
            return this.python.ask(what, given);
        }
    }
}
