"""Writes the state of a query again, in another backend or another number of partitions; done in the JVM.

From rocksdb to rocksdb Spark's own StateRewriter does it, in tasks: it knows every kind of state that rocksdb keeps.
It reads and writes nothing else. From and to hashmap, and from the tables of a canonical savepoint, the stores are
opened here, in the driver: one operator and store after the other, its partitions side by side. (Spark's tasks would
have to find the class that is compiled here, and they look for it in jars.)

A thread reads one partition of a store, or one piece of a Parquet file, and puts each row, byte by byte as it is, into
the partition that Spark's shuffle sends its key to. A store takes rows of one thread at a time, so they are put by the
batch. The first error interrupts the other threads, which look before each batch, and they are waited for: nobody
writes any more when it is told. In memory are so many partitions of a hashmap, some megabytes of each Parquet file,
and whatever a hashmap has that is written.

All write a snapshot of the very version that the epoch ends with. The class is compiled by Janino, as in `look`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.checkpoints.spark_layout import STATE
from tidegate.checkpoints.sync import sync_whole
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.core.spark_log import parse_offsets
from tidegate.savepoints.log_change import state_ids_of, with_settings, with_state_ids
from tidegate.savepoints.operator_metadata import prefix_columns
from tidegate.savepoints.rewritten import (
    as_snapshots,
    begin,
    commits_of,
    end,
    offsets_of,
    replace_commits,
    replace_offsets,
    state_partitions,
)
from tidegate.savepoints.state_change import StateChange, StateForm
from tidegate.savepoints.state_tables import SavedTables, StateTable
from tidegate.settings.kinds import Backend
from tidegate.spark.full_disk import full_disk
from tidegate.spark.query_conf import NOT_COUNTED, PARTITIONS_KEY, PROVIDER_KEY, STORES
from tidegate.spark.session import query_settings
from tidegate.spark.state.tables import read_canonical

_SOURCE = """
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
                lines.append('\\n');
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
"""

_CLASS = "TidegateStateRewrite"
_NUMBERS = itertools.count()
"""Py4J remembers methods by the name of their class, and a class of that name from another loader is another one."""

_ADAPTIVE = "spark.sql.adaptive.enabled"
"""It may read several partitions in one task, and each task writes the partition of its own number."""

_JOIN_VERSION = "spark.sql.streaming.join.stateFormatVersion"

StateIds = Mapping[int, Sequence[Sequence[str]]]
"""By operator, by partition, one id for each store."""


def rewrite_state(
    session: SparkSession,
    conf: Mapping[str, str],
    checkpoint: Path,
    final: Path,
    saved: SavedQuery,
    change: StateChange,
    moves: Callable[[str], None],
    tables: SavedTables | None = None,
) -> None:
    """Put a checkpoint with the state in its new form in the place of a restored one, durable. `conf` are the settings
    of the query, `final` is where the checkpoint will stand. `moves` is told of each step. `tables`: the canonical
    savepoint that has the state; without it the checkpoint itself does.

    Raises RESTORE_STATE, and what the disk has to say.
    """
    before = begin(checkpoint, change.after.partitions)
    moves(f"{checkpoint}, without state")
    store = STORES[change.after.backend]
    in_force = {PROVIDER_KEY: store.provider, PARTITIONS_KEY: str(change.after.partitions)}
    # As restored, not as saved: the program may have other sources.
    offsets = with_settings(offsets_of(checkpoint, saved.done.epoch), in_force)
    replace_offsets(checkpoint, saved.done.epoch, offsets)
    entry = parse_offsets(offsets)
    settings = {} if entry is None else entry.conf
    with query_settings(session, {**conf, **settings, _ADAPTIVE: "false", **NOT_COUNTED}):
        ids = _Rewrite(session, before, checkpoint, saved, change, moves, tables).run() if saved.operators else {}
    replace_commits(
        checkpoint, saved.done.epoch, with_state_ids(saved.done.commits, ids if store.names_files else None)
    )
    end(checkpoint, before, final)
    moves(f"{checkpoint}, state rewritten")


def begin_operators(
    session: SparkSession,
    conf: Mapping[str, str],
    checkpoint: Path,
    saved: SavedQuery,
    new: tuple[StatefulOperator, ...],
    form: StateForm,
    moves: Callable[[str], None],
) -> None:
    """Give operators that are new, and described in a checkpoint, empty stores beside the state of the others: of the
    version that the saved epoch ends with, so that Spark finds all of them where it goes on. Durable.

    Raises RESTORE_STATE, and what the disk has to say.
    """
    begun, store = msgspec.structs.replace(saved, operators=new), STORES[form.backend]
    entry = parse_offsets(offsets_of(checkpoint, saved.done.epoch))
    settings = {} if entry is None else entry.conf
    with query_settings(session, {**conf, **settings, **NOT_COUNTED}):
        ids = _Rewrite(session, checkpoint, checkpoint, begun, StateChange(form, form), moves, None).begun()
    commits = commits_of(checkpoint, saved.done.epoch)
    if store.names_files:
        replace_commits(checkpoint, saved.done.epoch, with_state_ids(commits, {**state_ids_of(commits), **ids}))
    sync_whole(checkpoint)


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One checkpoint's state, all its operators; only with the settings of its query in force."""

    session: SparkSession
    before: Path
    after: Path
    saved: SavedQuery
    change: StateChange
    moves: Callable[[str], None]
    tables: SavedTables | None

    def run(self) -> StateIds:
        """All of the state, in its new form."""
        return self._in_jvm(self._divided if self._is_divided else self._all_copied)

    def begun(self) -> StateIds:
        """Empty stores."""
        return self._in_jvm(lambda maker: {each.number: self._copied(maker, each, ()) for each in self.saved.operators})

    def _in_jvm(self, work: Callable[[Any], StateIds]) -> StateIds:
        jvm: Any = self.session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        classic: Any = self.session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(classic.getClass().getClassLoader())
        name = f"{_CLASS}{next(_NUMBERS)}"
        compiler.cook(_SOURCE.replace(_CLASS, name))
        maker: Any = compiler.getClassLoader().loadClass(name).newInstance()
        try:
            maker.open(
                classic,
                f"file:{self.before}",
                f"file:{self.after}",
                self.saved.done.epoch,
                self.change.after.partitions,
            )
            return work(maker)
        except (PySparkException, Py4JError) as error:
            full = full_disk(error)
            if full is not None:
                raise full from None
            found = str(getattr(error, "java_exception", error))[:500]
            raise self._failed("state that Spark can write in its new form", found) from None

    @property
    def _is_divided(self) -> bool:
        backends = {self.change.before.backend, self.change.after.backend}
        return self.tables is None and backends == {Backend.ROCKSDB}

    def _divided(self, rewrite: Any) -> StateIds:
        """By Spark's own rewriter."""
        found: dict[int, list[list[str]]] = defaultdict(list)
        for line in rewrite.divide().splitlines():
            operator, _, *ids = line.split(" ")
            found[int(operator)].append(ids)
        self.moves(f"{self.after}, state divided")
        return found

    def _all_copied(self, rewrite: Any) -> StateIds:
        found: dict[int, list[list[str]]] = {}
        for each in self.saved.operators:
            sources = () if self.tables is not None else state_partitions(self.before, each.number)
            found[each.number] = self._copied(rewrite, each, sources)
        return found

    def _copied(self, rewrite: Any, operator: StatefulOperator, sources: Sequence[int]) -> list[list[str]]:
        """Store by store, from these partitions; the ids by partition, one for each store."""
        metadata = self.before / STATE / str(operator.number) / "_metadata" / "metadata"
        prefixes = prefix_columns(metadata.read_bytes(), str(metadata))
        loads_empty = self.change.after.backend is Backend.ROCKSDB
        by_store: list[list[str]] = []
        for position, store in enumerate(operator.stores):
            table = StateTable(self.saved.done.query, operator.number, operator.name, store)
            line: str = rewrite.copy(
                *self._form(self.change.before.backend),
                *self._form(self.change.after.backend),
                operator.number,
                operator.name,
                store,
                prefixes.get(store, 0),
                self._join_version(),
                " ".join(map(str, sources)),
                " ".join(self._ids(operator, position, sources)),
                None if self.tables is None else self._rows(Path(self.tables.folder_of(table))),
                loads_empty,
            )
            by_store.append(line.split(" ")[1:])
            self.moves(f"{self.after}, {operator.name}, {line.split(' ')[0]} rows of {store} rewritten")
        if not loads_empty:
            as_snapshots(self.after, operator.number, self.saved.done.epoch + 1)
        return [list(ids) for ids in zip(*by_store, strict=True)]

    def _rows(self, folder: Path) -> Any:
        """The pairs of key and value in the files of a table."""
        rows: Any = read_canonical(self.session, folder).select("key", "value")
        return rows._jdf

    def _ids(self, operator: StatefulOperator, position: int, sources: Sequence[int]) -> Sequence[str]:
        """Of the files of one store, by partition; none where the form has no ids."""
        if not sources or not STORES[self.change.before.backend].names_files:
            return ()
        ids = state_ids_of(self.saved.done.commits)[operator.number]
        return [ids[partition][position] for partition in sources]

    def _form(self, backend: Backend) -> tuple[str, str]:
        return STORES[backend].provider, STORES[backend].checkpoint_format

    def _join_version(self) -> int:
        entry = parse_offsets(self.saved.done.offsets)
        return int((entry.conf if entry else {}).get(_JOIN_VERSION, "2"))

    def _failed(self, expected: str, found: str) -> TidegateError:
        return TidegateError(
            Code.RESTORE_STATE,
            expected=expected,
            found=found,
            where=str(self.after),
            next_step="restore it with the backend and the partitions that it has; nothing of the job was changed",
        )
