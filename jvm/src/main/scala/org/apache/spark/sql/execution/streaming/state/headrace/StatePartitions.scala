package org.apache.spark.sql.execution.streaming.state
package headrace

import java.nio.file.{Files, Path, Paths, StandardCopyOption}
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, GetStructField, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** Change of the number of partitions in the checkpoint of a query that does not run: each row of each operator's state is moved into
  * the partition that Spark's shuffle will send the rows of its key to.
  *
  * The new state is written beside the old one. The name of its folder is the mark that it is complete, and from then on the change is
  * finished, also after a crash.
  */
object StatePartitions {
  private val Partitions = SQLConf.SHUFFLE_PARTITIONS.key
  private val Operator = "[0-9]+"
  private val Complete = "state\\.for\\.([0-9]+)".r
  private val mapper = new ObjectMapper()

  /** Number of partitions of the state in a checkpoint, as of a batch. */
  def of(checkpoint: String, batch: Long): Int = confOf(offsetsOf(Paths.get(checkpoint), batch)).get(Partitions).asInt()

  /** Change the number, if it is another one. `batch` is the last one, and it is finished. */
  def change(session: SparkSession, checkpoint: String, batch: Long, partitions: Int): Unit = synchronized {
    val folder = Paths.get(checkpoint)
    finish(folder)
    if (of(checkpoint, batch) != partitions) {
      val written = folder.resolve("state.written")
      Files.createDirectories(written)
      children(folder.resolve("state")).filter(_.getFileName.toString.matches(Operator)).foreach { operator =>
        new OperatorState(session, operator).rewrite(written, batch + 1, partitions)
      }
      Files.move(written, folder.resolve(s"state.for.$partitions"), StandardCopyOption.ATOMIC_MOVE)
      finish(folder)
    }
  }

  /** Put a new state that is complete into the place of the old one, and remove what is neither. */
  private def finish(folder: Path): Unit = {
    val (state, before) = (folder.resolve("state"), folder.resolve("state.before"))
    for (complete <- children(folder); Complete(partitions) <- Some(complete.getFileName.toString)) {
      children(folder.resolve("offsets")).filter(_.getFileName.toString.matches(Operator)).foreach { offsets =>
        val lines = Files.readAllLines(offsets).asScala.toSeq
        val facts = mapper.readTree(lines(1)).asInstanceOf[ObjectNode]
        facts.get("conf").asInstanceOf[ObjectNode].put(Partitions, partitions)
        replace(offsets, (lines.head +: mapper.writeValueAsString(facts) +: lines.drop(2)).mkString("\n"))
      }
      if (Files.exists(state)) {
        FileUtils.deleteDirectory(before.toFile)
        Files.move(state, before, StandardCopyOption.ATOMIC_MOVE)
      }
      Files.move(complete, state, StandardCopyOption.ATOMIC_MOVE)
    }
    FileUtils.deleteDirectory(before.toFile)
    FileUtils.deleteDirectory(folder.resolve("state.written").toFile)
  }

  private def offsetsOf(checkpoint: Path, batch: Long): Path = checkpoint.resolve("offsets").resolve(batch.toString)

  private def confOf(offsets: Path): JsonNode = mapper.readTree(Files.readAllLines(offsets).get(1)).get("conf")

  private[headrace] def replace(file: Path, content: String): Unit = {
    val written = file.resolveSibling(s".${file.getFileName}.tmp")
    Files.writeString(written, content)
    Files.move(written, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
  }

  private[headrace] def children(folder: Path): Seq[Path] =
    if (Files.isDirectory(folder)) Using.resource(Files.list(folder))(_.iterator().asScala.toSeq) else Nil

  private[headrace] def read(file: Path): JsonNode = mapper.readTree(Files.readString(file).linesIterator.drop(1).mkString("\n"))

  private[headrace] def text(node: JsonNode): String = mapper.writeValueAsString(node)
}

/** State of an operator, in the folder of its number. */
private final class OperatorState(session: SparkSession, folder: Path) {
  import OperatorState._

  private val hadoop = {
    val conf = session.asInstanceOf[classic.SparkSession].sessionState.newHadoopConf()
    conf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID().toString)
    conf
  }

  /** Files that describe the operator; those of earlier batches come first. */
  private val descriptions = {
    val metadata = folder.resolve("_metadata")
    val byBatch = StatePartitions.children(metadata.resolve("v2")).filter(isVisible).sortBy(_.getFileName.toString.toLong)
    if (byBatch.nonEmpty) byBatch else Seq(metadata.resolve("metadata"))
  }
  private val description = StatePartitions.read(descriptions.last)
  private val name = description.path("operatorInfo").path("operatorName").asText()

  def rewrite(state: Path, version: Long, partitions: Int): Unit = {
    val target = state.resolve(folder.getFileName)
    describe(target, partitions)
    description.path("stateStoreInfo").elements().asScala.foreach { store =>
      val schemas = schemasOf(store)
      val stores = Seq.tabulate(partitions)(partition => opened(state, partition, store, schemas, writing(partitions)))
      val written = stores.map(_.getStore(0))
      try {
        written.foreach(declare(_, schemas))
        present(store).foreach { partition =>
          val provider = opened(folder.getParent, partition, store, schemas, reading)
          try move(provider.getStore(version), written, schemas)
          finally provider.close()
        }
        written.foreach(_.commit())
      } finally {
        written.filterNot(_.hasCommitted).foreach(_.abort())
        stores.foreach(_.close())
      }
      stores.foreach { provider =>
        val place = Path.of(provider.stateStoreId.storeCheckpointLocation().toString)
        // The first version of the new store is the present one of the query.
        Files.move(place.resolve("1.zip"), place.resolve(s"$version.zip"))
      }
    }
  }

  private def move(from: StateStore, to: Seq[StateStore], schemas: Seq[StateStoreColFamilySchema]): Unit =
    try {
      declare(from, schemas)
      schemas.foreach { schema =>
        val partition = partitionOf(schema, to.size)
        from.iterator(schema.colFamilyName).foreach { pair => to(partition(pair.key)).put(pair.key, pair.value, schema.colFamilyName) }
      }
    } finally from.abort()

  /** Partition of a state's key: Spark's own, of the columns by which the rows of the operator are shuffled. */
  private def partitionOf(schema: StateStoreColFamilySchema, partitions: Int): UnsafeRow => Int = {
    val key = schema.keySchema
    val columns = key.indices.map(at => BoundReference(at, key(at).dataType, key(at).nullable))
    val shuffled: Seq[Expression] = name match {
      case Aggregation => columns
      case Sessions    => columns.dropRight(1)
      case Keyed =>
        schema.keyStateEncoderSpec match {
          case Some(_: NoPrefixKeyStateEncoderSpec) => columns
          case _ =>
            // Entries of a map, and timers: the key of the operator is one column of theirs.
            val at = key.fieldIndex("key")
            key(at).dataType.asInstanceOf[StructType].indices.map(GetStructField(columns(at), _))
        }
    }
    if (shuffled.isEmpty) _ => 0
    else {
      val number = UnsafeProjection.create(HashPartitioning(shuffled, partitions).partitionIdExpression :: Nil)
      row => number(row).getInt(0)
    }
  }

  private def hasFamilies: Boolean = name match {
    case Aggregation | Sessions => false
    case Keyed                  => true
    case other                  => throw new IllegalStateException(s"expected an operator whose state can be moved, found $other in $folder")
  }

  private def schemasOf(store: JsonNode): Seq[StateStoreColFamilySchema] = {
    val place = StateStoreId(folder.getParent.toString, folder.getFileName.toString.toLong, 0, store.path("storeName").asText())
    val files = store.path("stateSchemaFilePaths").elements().asScala.map(file => new HadoopPath(file.asText())).toList
    new StateSchemaCompatibilityChecker(StateStoreProviderId(place, UUID.randomUUID()), hadoop, files).readSchemaFile()
  }

  /** Partitions that have state: an operator without a key has but the first one. */
  private def present(store: JsonNode): Seq[Int] =
    (0 until store.path("numPartitions").asInt()).filter { partition => Files.isDirectory(folder.resolve(partition.toString)) }

  private def opened(
      state: Path,
      partition: Int,
      store: JsonNode,
      schemas: Seq[StateStoreColFamilySchema],
      conf: SQLConf
  ): StateStoreProvider = {
    val place = StateStoreId(state.toString, folder.getFileName.toString.toLong, partition, store.path("storeName").asText())
    val first = schemas.find(_.colFamilyName == StateStore.DEFAULT_COL_FAMILY_NAME).getOrElse(schemas.head)
    StateStoreProvider.createAndInit(
      StateStoreProviderId(place, UUID.randomUUID()),
      first.keySchema,
      first.valueSchema,
      encoding(first, store),
      hasFamilies,
      new StateStoreConf(conf),
      new Configuration(hadoop),
      useMultipleValuesPerKey = false,
      stateSchemaProvider = None
    )
  }

  private def encoding(schema: StateStoreColFamilySchema, store: JsonNode): KeyStateEncoderSpec = {
    val prefix = store.path("numColsPrefixKey").asInt()
    if (hasFamilies || prefix == 0) NoPrefixKeyStateEncoderSpec(schema.keySchema)
    else PrefixKeyScanStateEncoderSpec(schema.keySchema, prefix)
  }

  /** Let a store have the families that it does not have by itself. */
  private def declare(store: StateStore, schemas: Seq[StateStoreColFamilySchema]): Unit = for {
    schema <- schemas
    if schema.colFamilyName != StateStore.DEFAULT_COL_FAMILY_NAME
  } {
    val isInternal = schema.colFamilyName.startsWith("$")
    store.createColFamilyIfAbsent(
      schema.colFamilyName,
      schema.keySchema,
      schema.valueSchema,
      schema.keyStateEncoderSpec.get,
      useMultipleValuesPerKey = false,
      isInternal = isInternal
    )
  }

  /** Write what describes the operator into its new folder. */
  private def describe(target: Path, partitions: Int): Unit = {
    val first = folder.resolve("0")
    val kept = Seq("_metadata", "_stateSchema").map(folder.resolve) ++ described(first)
    for (place <- kept; file <- files(place) if isVisible(file)) {
      val copy = target.resolve(folder.relativize(file))
      Files.createDirectories(copy.getParent)
      if (descriptions.contains(file)) {
        val node = StatePartitions.read(file)
        node.path("stateStoreInfo").elements().asScala.foreach(_.asInstanceOf[ObjectNode].put("numPartitions", partitions))
        Files.writeString(copy, s"${Files.readString(file).linesIterator.next()}\n${StatePartitions.text(node)}")
      } else Files.copy(file, copy)
    }
  }

  private def described(partition: Path): Seq[Path] =
    partition.resolve("_metadata") +: StatePartitions.children(partition).filter(Files.isDirectory(_)).map(_.resolve("_metadata"))

  private def settings(all: (String, String)*): SQLConf = {
    val conf = session.asInstanceOf[classic.SparkSession].sessionState.conf.clone()
    all.foreach { case (name, value) => conf.setConfString(name, value) }
    conf
  }

  private def reading: SQLConf = settings(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[CountedStateStoreProvider].getName)

  private def writing(partitions: Int): SQLConf = settings(
    SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[RocksDBStateStoreProvider].getName,
    // Each commit is then a snapshot of the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "false",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows" -> "false",
    "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB" -> math.max(1, BufferMb / partitions).toString,
    "spark.sql.streaming.stateStore.commitValidation.enabled" -> "false"
  )
}

private object OperatorState {

  /** Spark's names of the operators in the plans of Headrace. */
  private val Aggregation = "stateStoreSave"
  private val Sessions = "sessionWindowStateStoreSaveExec"
  private val Keyed = "transformWithStateExec"

  /** Rows of a state that are in memory before they are written, for all of its partitions. */
  private val BufferMb = 128

  private def files(folder: Path): Seq[Path] =
    if (Files.isDirectory(folder)) Using.resource(Files.walk(folder))(_.iterator().asScala.filter(Files.isRegularFile(_)).toSeq) else Nil

  /** Hadoop's checksums and unfinished files have a dot first. */
  private def isVisible(file: Path): Boolean = !file.getFileName.toString.startsWith(".")
}
