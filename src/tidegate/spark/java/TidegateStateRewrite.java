import java.io.Closeable;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat$;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory;
import org.apache.spark.sql.execution.streaming.state.*;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.ThreadUtils;
import scala.Option;

public class TidegateStateRewrite {
    private static final int THREADS = 8;
    private static final int BATCH = 64 << 10;
    private static final long PIECE = 16L << 20;

    private SparkSession session;
    private Configuration hadoop;
    private String before;
    private String target;
    private long epoch;
    private int partitions;

    public void open(SparkSession session, String before, String target, long epoch, int partitions) {
        this.session = session;
        this.hadoop = session.sessionState().newHadoopConf();
        this.hadoop.set("sql.streaming.runId", UUID.randomUUID().toString());
        this.before = before;
        this.target = target;
        this.epoch = epoch;
        this.partitions = partitions;
    }

    public String divide() {
        Option ids = new StateRewriter(
            session, epoch, epoch, target, hadoop, Option.apply(before),
            Option.apply(new ByKey(partitions)), Option.empty()).run();
        StringBuilder lines = new StringBuilder();
        scala.collection.Iterator operators = ((scala.collection.immutable.Map) ids.get()).iterator();
        while (operators.hasNext()) {
            scala.Tuple2 operator = (scala.Tuple2) operators.next();
            String[][] found = (String[][]) operator._2();
            for (int i = 0; i < found.length; i++) {
                lines.append(operator._1()).append(' ').append(i);
                for (int j = 0; j < found[i].length; j++) {
                    lines.append(' ').append(found[i][j]);
                }
                lines.append('\n');
            }
        }
        return lines.toString();
    }

    public String copy(
            String providerBefore, String formatBefore, String providerAfter, String formatAfter,
            long operator, String name, String store, int prefix, int joinVersion,
            String sources, String ids, Dataset table, boolean loadEmpty) throws Exception {
        StateStoreColFamilySchema schema = schemaOf(operator, store);
        KeyStateEncoderSpec keys = prefix > 0
            ? (KeyStateEncoderSpec) new PrefixKeyScanStateEncoderSpec(schema.keySchema(), prefix)
            : (KeyStateEncoderSpec) new NoPrefixKeyStateEncoderSpec(schema.keySchema());
        Division division = new Division(name, store, schema, joinVersion, partitions);
        StateStoreConf to = conf(providerAfter, formatAfter);
        StateStoreProvider[] providers = new StateStoreProvider[division.width];
        long version = loadEmpty ? epoch : 0L;
        try {
            for (int i = 0; i < division.width; i++) {
                providers[i] = provider(id(target, operator, i, store), schema, keys, to);
                division.stores[i] = providers[i].getStore(version, Option.empty(), loadEmpty, loadEmpty);
            }
            List reads = table == null
                ? stored(operator, store, sources, ids, schema, keys, conf(providerBefore, formatBefore), division)
                : filed(table, division);
            long rows = 0;
            Object[] counts = sideBySide(reads);
            for (int i = 0; i < counts.length; i++) {
                rows += ((Long) counts[i]).longValue();
            }
            List commits = new ArrayList();
            for (int i = 0; i < division.width; i++) {
                commits.add(new Commit(division.stores[i]));
            }
            StringBuilder line = new StringBuilder().append(rows);
            Object[] written = sideBySide(commits);
            for (int i = 0; i < written.length; i++) {
                line.append(' ').append(written[i]);
            }
            return line.toString();
        } finally {
            for (int i = 0; i < division.width; i++) {
                if (division.stores[i] != null && !division.stores[i].hasCommitted()) {
                    division.stores[i].abort();
                }
                if (providers[i] != null) {
                    providers[i].close();
                }
            }
        }
    }

    private List stored(
            long operator, String store, String sources, String ids, StateStoreColFamilySchema schema,
            KeyStateEncoderSpec keys, StateStoreConf conf, Division division) {
        String[] from = sources.isEmpty() ? new String[0] : sources.split(" ");
        String[] named = ids.isEmpty() ? new String[0] : ids.split(" ");
        List reads = new ArrayList();
        for (int i = 0; i < from.length; i++) {
            Option id = named.length == 0 ? Option.empty() : Option.apply((Object) named[i]);
            StateStoreProviderId source = id(before, operator, Integer.parseInt(from[i]), store);
            reads.add(new Stored(this, source, id, keys, conf, division));
        }
        return reads;
    }

    private List filed(Dataset table, Division division) throws Exception {
        scala.Function1 reader = new ParquetFileFormat().buildReaderWithPartitionValues(
            session, table.schema(), new StructType(), table.schema(), scala.collection.immutable.Nil$.MODULE$,
            new scala.collection.immutable.Map.Map1(FileFormat$.MODULE$.OPTION_RETURNING_BATCH(), "false"),
            session.sessionState().newHadoopConf());
        List reads = new ArrayList();
        String[] files = table.inputFiles();
        for (int i = 0; i < files.length; i++) {
            SparkPath path = SparkPath.fromUrlString(files[i]);
            FileStatus file = path.toPath().getFileSystem(hadoop).getFileStatus(path.toPath());
            for (long at = 0; at < file.getLen(); at += PIECE) {
                reads.add(new Filed(reader, new PartitionedFile(
                    InternalRow.empty(), path, at, Math.min(PIECE, file.getLen() - at), new String[0],
                    file.getModificationTime(), file.getLen(), scala.collection.immutable.Map$.MODULE$.empty()
                ), division));
            }
        }
        return reads;
    }

    private static Object[] sideBySide(List work) throws Exception {
        int threads = Math.max(1, Math.min(work.size(), Math.min(Runtime.getRuntime().availableProcessors(), THREADS)));
        ThreadPoolExecutor pool = ThreadUtils.newDaemonFixedThreadPool(threads, "tidegate-state");
        try {
            ExecutorCompletionService ended = new ExecutorCompletionService(pool);
            Future[] begun = new Future[work.size()];
            for (int i = 0; i < begun.length; i++) {
                begun[i] = ended.submit((Callable) work.get(i));
            }
            for (int i = 0; i < begun.length; i++) {
                ended.take().get();
            }
            Object[] found = new Object[begun.length];
            for (int i = 0; i < begun.length; i++) {
                found[i] = begun[i].get();
            }
            return found;
        } catch (ExecutionException error) {
            if (error.getCause() instanceof Exception) {
                throw (Exception) error.getCause();
            }
            throw error;
        } finally {
            pool.shutdownNow();
            pool.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
        }
    }

    private StateStoreColFamilySchema schemaOf(long operator, String store) {
        return (StateStoreColFamilySchema) new StateSchemaCompatibilityChecker(
            id(before, operator, 0, store), hadoop, scala.collection.immutable.Nil$.MODULE$, Option.empty(), false
        ).readSchemaFile().head();
    }

    private static UnsafeProjection partitionOf(StructType key, int width) {
        List one = new ArrayList();
        one.add(new HashPartitioning(sequence(columns(key)), width).partitionIdExpression());
        return projection(one);
    }

    private static List columns(StructType row) {
        List columns = new ArrayList();
        StructField[] fields = row.fields();
        for (int i = 0; i < fields.length; i++) {
            columns.add(new BoundReference(i, fields[i].dataType(), fields[i].nullable()));
        }
        return columns;
    }

    private static UnsafeProjection projection(List columns) {
        return (UnsafeProjection) UnsafeProjection$.MODULE$.create(sequence(columns));
    }

    private static scala.collection.immutable.Seq sequence(List list) {
        return scala.jdk.javaapi.CollectionConverters.asScala(list).toSeq();
    }

    private StateStoreConf conf(String provider, String format) {
        SQLConf conf = session.sessionState().conf().clone();
        conf.setConfString("spark.sql.streaming.stateStore.providerClass", provider);
        conf.setConfString("spark.sql.streaming.stateStore.checkpointFormatVersion", format);
        return StateStoreConf$.MODULE$.apply(conf);
    }

    private StateStoreProviderId id(String root, long operator, int partition, String store) {
        return new StateStoreProviderId(
            new StateStoreId(root + "/state", operator, partition, store), UUID.randomUUID());
    }

    private StateStoreProvider provider(
            StateStoreProviderId id, StateStoreColFamilySchema schema, KeyStateEncoderSpec keys, StateStoreConf conf) {
        return StateStoreProvider$.MODULE$.createAndInit(
            id, schema.keySchema(), schema.valueSchema(), keys, false, conf, hadoop, false, Option.empty());
    }

    public static class Division {
        private final String name;
        private final String store;
        private final StateStoreColFamilySchema schema;
        private final int joinVersion;
        private final int width;
        private final StateStore[] stores;

        public Division(String name, String store, StateStoreColFamilySchema schema, int joinVersion, int partitions) {
            this.name = name;
            this.store = store;
            this.schema = schema;
            this.joinVersion = joinVersion;
            this.width = extractor().partitionKeySchema().length() == 0 ? 1 : partitions;
            this.stores = new StateStore[width];
        }

        private StatePartitionKeyExtractor extractor() {
            return StatePartitionKeyExtractorFactory.create(
                name, schema.keySchema(), store, "default", Option.apply((Object) Integer.valueOf(joinVersion)),
                Option.empty());
        }
    }

    public abstract static class Read implements Callable {
        protected final Division division;
        private StatePartitionKeyExtractor extractor;
        private UnsafeProjection partition;
        private UnsafeRow key;
        private UnsafeRow value;
        private byte[][] batches;
        private int[] filled;

        protected Read(Division division) {
            this.division = division;
        }

        protected abstract long read() throws Exception;

        public Object call() throws Exception {
            extractor = division.extractor();
            partition = partitionOf(extractor.partitionKeySchema(), division.width);
            key = new UnsafeRow(division.schema.keySchema().length());
            value = new UnsafeRow(division.schema.valueSchema().length());
            batches = new byte[division.width][];
            filled = new int[division.width];
            try {
                long rows = read();
                for (int i = 0; i < division.width; i++) {
                    put(i);
                }
                return Long.valueOf(rows);
            } finally {
                batches = null;
            }
        }

        protected void give(UnsafeRow key, UnsafeRow value) throws Exception {
            int to = partition.apply(extractor.partitionKey(key)).getInt(0);
            int room = 8 + key.getSizeInBytes() + value.getSizeInBytes();
            if (batches[to] == null || filled[to] + room > batches[to].length) {
                put(to);
                batches[to] = new byte[Math.max(BATCH, room)];
            }
            long at = Platform.BYTE_ARRAY_OFFSET + filled[to];
            Platform.putInt(batches[to], at, key.getSizeInBytes());
            Platform.putInt(batches[to], at + 4, value.getSizeInBytes());
            key.writeToMemory(batches[to], at + 8);
            value.writeToMemory(batches[to], at + 8 + key.getSizeInBytes());
            filled[to] += room;
        }

        private void put(int to) throws Exception {
            if (Thread.currentThread().isInterrupted()) {
                throw new InterruptedException();
            }
            StateStore store = division.stores[to];
            synchronized (store) {
                long at = Platform.BYTE_ARRAY_OFFSET;
                long end = at + filled[to];
                while (at < end) {
                    key.pointTo(batches[to], at + 8, Platform.getInt(batches[to], at));
                    value.pointTo(
                        batches[to], at + 8 + key.getSizeInBytes(), Platform.getInt(batches[to], at + 4));
                    store.put(key, value, "default");
                    at += 8 + key.getSizeInBytes() + value.getSizeInBytes();
                }
            }
            filled[to] = 0;
        }
    }

    public static class Stored extends Read {
        private final TidegateStateRewrite rewrite;
        private final StateStoreProviderId source;
        private final Option id;
        private final KeyStateEncoderSpec keys;
        private final StateStoreConf conf;

        public Stored(
                TidegateStateRewrite rewrite, StateStoreProviderId source, Option id, KeyStateEncoderSpec keys,
                StateStoreConf conf, Division division) {
            super(division);
            this.rewrite = rewrite;
            this.source = source;
            this.id = id;
            this.keys = keys;
            this.conf = conf;
        }

        protected long read() throws Exception {
            long rows = 0;
            StateStoreProvider provider = rewrite.provider(source, division.schema, keys, conf);
            try {
                ReadStateStore state = provider.getReadStore(rewrite.epoch + 1, id);
                try {
                    scala.collection.Iterator pairs = state.iterator("default");
                    while (pairs.hasNext()) {
                        UnsafeRowPair pair = (UnsafeRowPair) pairs.next();
                        give(pair.key(), pair.value());
                        rows++;
                    }
                } finally {
                    state.abort();
                }
            } finally {
                provider.close();
            }
            return rows;
        }
    }

    public static class Filed extends Read {
        private final scala.Function1 reader;
        private final PartitionedFile piece;

        public Filed(scala.Function1 reader, PartitionedFile piece, Division division) {
            super(division);
            this.reader = reader;
            this.piece = piece;
        }

        protected long read() throws Exception {
            UnsafeProjection keys = projection(columns(division.schema.keySchema()));
            UnsafeProjection values = projection(columns(division.schema.valueSchema()));
            int keyWidth = Math.max(1, division.schema.keySchema().length());
            int valueWidth = Math.max(1, division.schema.valueSchema().length());
            long rows = 0;
            scala.collection.Iterator table = (scala.collection.Iterator) reader.apply(piece);
            try {
                while (table.hasNext()) {
                    InternalRow row = (InternalRow) table.next();
                    give(
                        (UnsafeRow) keys.apply(row.getStruct(0, keyWidth)),
                        (UnsafeRow) values.apply(row.getStruct(1, valueWidth)));
                    rows++;
                }
            } finally {
                ((Closeable) table).close();
            }
            return rows;
        }
    }

    public static class Commit implements Callable {
        private final StateStore store;

        public Commit(StateStore store) {
            this.store = store;
        }

        public Object call() {
            store.commit();
            Option id = store.getStateStoreCheckpointInfo().stateStoreCkptId();
            return id.isEmpty() ? "-" : (String) id.get();
        }
    }

    public static class ByKey extends scala.runtime.AbstractFunction1 {
        private final int partitions;

        public ByKey(int partitions) {
            this.partitions = partitions;
        }

        public Object apply(Object state) {
            Dataset rows = (Dataset) state;
            StructType key = (StructType) rows.schema().apply("partition_key").dataType();
            return key.length() == 0
                ? rows.coalesce(1)
                : rows.repartition(partitions, new Column[] {rows.col("partition_key")});
        }
    }
}
