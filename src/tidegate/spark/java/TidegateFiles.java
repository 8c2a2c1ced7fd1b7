import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Makes the stream of a file source. Everything that it decides is asked of Python. */
public class TidegateFiles {
    /** What Spark takes for its own description of files, and that makes our source of them. `isFolder`: the path is no
     * pattern, and partitions begin below it. */
    public DataSource source(DataSource like, StructType schema, boolean isFolder, Function asked) {
        return new Described(like, schema, isFolder, asked);
    }

    static class Described extends DataSource {
        private final transient Function asked;
        private final boolean isFolder;

        Described(DataSource like, StructType schema, boolean isFolder, Function asked) {
            super(like.sparkSession(), like.className(), like.paths(), scala.Option.apply(schema),
                  like.partitionColumns(), like.bucketSpec(), like.options(), like.catalogTable(),
                  like.userSpecifiedStreamingSourceName());
            this.asked = asked;
            this.isFolder = isFolder;
        }

        /** Equal to nothing else: Spark keeps the old child of a plan where the new one is equal to it. */
        public boolean canEqual(Object other) {
            return other == this;
        }

        public boolean equals(Object other) {
            return other == this;
        }

        public int hashCode() {
            return System.identityHashCode(this);
        }

        public Source createSource(String metadataPath) {
            return new FileSource(this, new TidegateAsked(this.asked), metadataPath, this.isFolder);
        }
    }

    static class FileSource implements SupportsTriggerAvailableNow, Source {
        private final DataSource described;
        private final TidegateAsked asked;
        private final String place;
        private final boolean isFolder;

        FileSource(DataSource described, TidegateAsked asked, String place, boolean isFolder) {
            this.described = described;
            this.asked = asked;
            this.place = place;
            this.isFolder = isFolder;
        }

        public StructType schema() {
            return (StructType) this.described.userSpecifiedSchema().get();
        }

        public void prepareForTriggerAvailableNow() {
            ask("catch_up", new HashMap());
        }

        public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
                org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
            Map given = new HashMap();
            given.put("start", start == null ? null : start.json());
            while (true) {
                Map answer = ask("latest", given);
                Object pause = answer.get("pause_ms");
                if (pause == null) {
                    if (!answer.containsKey("position")) {
                        throw new RuntimeException("no position and no pause in the answer: " + answer);
                    }
                    String position = (String) answer.get("position");
                    return position == null ? null : new SerializedOffset(position);
                }
                try {
                    Thread.sleep(((Number) pause).longValue());
                } catch (InterruptedException interrupted) {
                    throw new RuntimeException(interrupted);
                }
            }
        }

        public scala.Option getOffset() {
            throw new UnsupportedOperationException("latestOffset is asked");
        }

        public Dataset getBatch(scala.Option start, Offset end) {
            Map given = new HashMap();
            given.put("start", start.isEmpty() ? null : ((Offset) start.get()).json());
            given.put("end", end.json());
            List paths = (List) ask("batch", given).get("paths");
            HadoopFsRelation relation = relation(paths);
            tellFound((PartitioningAwareFileIndex) relation.location());
            return org.apache.spark.sql.classic.Dataset.ofRows(
                session(), org.apache.spark.sql.execution.datasources.LogicalRelation$.MODULE$.apply(relation, true));
        }

        /** The rows of these files, each of them once. Not by Spark's own `resolveRelation`: where globbing is off, it
         * takes a path that looks like a pattern for all paths, so every file is read once more for each such name. */
        private HadoopFsRelation relation(List paths) {
            List found = new ArrayList();
            for (int at = 0; at < paths.size(); at++) {
                found.add(new Path((String) paths.get(at)));
            }
            scala.collection.immutable.Map options =
                org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$.MODULE$.apply(options());
            PartitioningAwareFileIndex index = new InMemoryFileIndex(
                session(), scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq(), options,
                this.described.userSpecifiedSchema(), NoopCache$.MODULE$, scala.Option.empty(), scala.Option.empty());
            StructType partitions = index.partitionSchema();
            return new HadoopFsRelation(
                index, partitions, beside(partitions), scala.Option.empty(),
                (FileFormat) this.described.providingInstance(), options, session());
        }

        /** The columns that stand in the files: no folder's name has their value. */
        private StructType beside(StructType partitions) {
            boolean isExact = session().sessionState().conf().caseSensitiveAnalysis();
            List kept = new ArrayList();
            StructField[] fields = schema().fields();
            String[] taken = partitions.fieldNames();
            for (int at = 0; at < fields.length; at++) {
                boolean isTaken = false;
                for (int other = 0; other < taken.length; other++) {
                    String name = fields[at].name();
                    isTaken |= isExact ? name.equals(taken[other]) : name.equalsIgnoreCase(taken[other]);
                }
                if (!isTaken) {
                    kept.add(fields[at]);
                }
            }
            return new StructType((StructField[]) kept.toArray(new StructField[kept.size()])).asNullable();
        }

        private SparkSession session() {
            return (SparkSession) this.described.sparkSession();
        }

        /** Every file is named, and none is passed over when it is gone. */
        private scala.collection.immutable.Map options() {
            scala.collection.immutable.Map given = this.described.options();
            Object root = given.get("path").get();
            scala.collection.immutable.Map options = without(without(given, "path"), "pathGlobFilter");
            options = with(with(options, "ignoreMissingFiles", "false"), "__globPaths__", "false");
            return this.isFolder ? with(options, "basePath", root) : options;
        }

        private scala.collection.immutable.Map without(scala.collection.immutable.Map options, String name) {
            return (scala.collection.immutable.Map) options.removed(name);
        }

        private scala.collection.immutable.Map with(scala.collection.immutable.Map options, String name, Object value) {
            return (scala.collection.immutable.Map) options.updated(name, value);
        }

        private void tellFound(PartitioningAwareFileIndex index) {
            List found = new ArrayList();
            scala.collection.Iterator files = index.allFiles().iterator();
            while (files.hasNext()) {
                FileStatus file = (FileStatus) files.next();
                List each = new ArrayList();
                each.add(file.getPath().toString());
                each.add(Long.valueOf(file.getLen()));
                each.add(Long.valueOf(file.getModificationTime()));
                found.add(each);
            }
            Map given = new HashMap();
            given.put("found", found);
            ask("found", given);
        }

        public void commit(Offset end) {
        }

        public void commit(org.apache.spark.sql.connector.read.streaming.Offset end) {
        }

        public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
            throw new UnsupportedOperationException("Spark asks this of sources of another kind");
        }

        public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String json) {
            return new SerializedOffset(json);
        }

        public ReadLimit getDefaultReadLimit() {
            return ReadLimit.allAvailable();
        }

        public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() {
            return null;
        }

        public void stop() {
        }

        private Map ask(String what, Map given) {
            given.put("place", this.place);
            return this.asked.ask(what, given);
        }
    }
}
