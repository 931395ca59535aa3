package org.apache.spark.sql.execution.streaming.state
package headrace

import java.io.File
import java.lang.{Boolean => JBoolean}
import java.util.Arrays
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.io.Source

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.NextIterator

/** Spark's state in RocksDB, whose rows are counted without a look-up for each write.
  *
  * Where Spark counts, it looks a key up again when it is written or removed, to see whether there is one row more or less. An operator
  * has nearly always read that key before, so a store remembers for a batch what it has found. The state is as Spark's own: each may go on with
  * what the other wrote.
  */
final class CountedStateStoreProvider extends RocksDBStateStoreProvider {
  override protected def createRocksDB(
      dfsRootDir: String,
      conf: RocksDBConf,
      localRootDir: File,
      hadoopConf: Configuration,
      loggingId: String,
      useColumnFamilies: Boolean,
      enableStateStoreCheckpointIds: Boolean,
      partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder],
      uniqueId: Option[String]
  ): RocksDB = new CountedRocksDB(
    dfsRootDir,
    conf.copy(trackTotalNumberOfRows = false),
    localRootDir,
    hadoopConf,
    loggingId,
    useColumnFamilies,
    enableStateStoreCheckpointIds,
    partitionId,
    eventForwarder,
    uniqueId
  )
}

private[headrace] object CountedStateStoreProvider {
  private val open = new ConcurrentHashMap[String, CountedRocksDB]

  /** The store of this process behind a store; None for another provider's. */
  def rows(store: ReadStateStore): Option[CountedRocksDB] =
    Option(open.get(store.id.storeCheckpointLocation().toString)).filter(_.isAt(store.version))

  /** Name of the file of an operator that started in the midst of a checkpoint: the version of which its state is empty. */
  private val FirstVersion = "first_version"

  /** The version of which the state of the operator of a store in `dfsRootDir` is empty. */
  private[headrace] def firstVersion(dfsRootDir: String, partition: Int, hadoopConf: Configuration): Long = {
    val partitionFolder = Iterator.iterate(new Path(dfsRootDir))(_.getParent).takeWhile(_ != null).find(_.getName == partition.toString)
    val file = partitionFolder.map(folder => new Path(folder.getParent, FirstVersion))
    file.filter(path => path.getFileSystem(hadoopConf).exists(path)).fold(0L) { path =>
      val in = path.getFileSystem(hadoopConf).open(path)
      try Source.fromInputStream(in).mkString.trim.toLong
      finally in.close()
    }
  }

  private[headrace] def opened(place: String, rows: CountedRocksDB): Unit = open.put(place, rows)
  private[headrace] def closed(place: String, rows: CountedRocksDB): Unit = open.remove(place, rows)
}

/** Keys are known by a hash of 64 bits: should two of a batch have the same, the count may be wrong by one until the store is opened again.
  * It serves metrics alone.
  */
private[headrace] final class CountedRocksDB(
    dfsRootDir: String,
    conf: RocksDBConf,
    localRootDir: File,
    hadoopConf: Configuration,
    loggingId: String,
    useColumnFamilies: Boolean,
    enableStateStoreCheckpointIds: Boolean,
    partitionId: Int,
    eventForwarder: Option[RocksDBEventForwarder],
    uniqueId: Option[String]
) extends RocksDB(
      dfsRootDir,
      conf,
      localRootDir,
      hadoopConf,
      loggingId,
      useColumnFamilies,
      enableStateStoreCheckpointIds,
      partitionId,
      eventForwarder,
      uniqueId
    ) {
  private val Unknown = -1L

  /** Spark numbers the versions of all states by batches. The files of this one are numbered from here. */
  private val first = CountedStateStoreProvider.firstVersion(dfsRootDir, partitionId, hadoopConf)

  /** Number of rows in the written version. Unknown from the opening of the store until its first commit, which
    * counts them all.
    */
  private var rows = Unknown
  private val families = mutable.Set(StateStore.DEFAULT_COL_FAMILY_NAME)
  private val internal = mutable.Set.empty[String]

  /** Presence of rows by the hashes of keys. */
  private var presence = mutable.LongMap.empty[JBoolean]
  private var iterated: Array[Byte] = _
  private var iteratedFamily = ""
  private var added = false
  private var windows: Option[(Long, WindowEnds)] = None
  CountedStateStoreProvider.opened(dfsRootDir, this)

  def isAt(version: Long): Boolean = loadedVersion == version - first

  /** Does `put`, of a key that is known to have no row: it is not looked up to count it. */
  def adding(put: => Unit): Unit = {
    added = true
    try put
    finally added = false
  }

  /** Range of the window ends in the loaded version; None before it was read. */
  def ends: Option[WindowEnds] = windows.collect { case (version, known) if version == loadedVersion => known }

  /** Record the range of the version that was just committed. */
  def ends_=(known: WindowEnds): Unit = windows = Some(loadedVersion -> known)

  override def close(): Unit = {
    CountedStateStoreProvider.closed(dfsRootDir, this)
    super.close()
  }

  override def load(version: Long, stateStoreCkptId: Option[String], readOnly: Boolean): RocksDB = {
    if (!isAt(version) || stateStoreCkptId != loadedStateStoreCkptId) {
      rows = Unknown
      forget()
    }
    super.load(version - first, stateStoreCkptId, readOnly)
  }

  override def commit(): (Long, StateStoreCheckpointInfo) = {
    if (rows == Unknown) rows = families.toSeq.map(iterator(_).size.toLong).sum
    forget()
    val (version, info) = super.commit()
    (version + first, info)
  }

  override def metricsOpt: Option[RocksDBMetrics] =
    super.metricsOpt.map(_.copy(numCommittedKeys = rows, numUncommittedKeys = rows))

  override def createColFamilyIfAbsent(family: String, isInternal: Boolean): Short = {
    (if (isInternal) internal else families) += family
    super.createColFamilyIfAbsent(family, isInternal)
  }

  override def removeColFamilyIfExists(family: String): Boolean = {
    families -= family
    rows = Unknown
    super.removeColFamilyIfExists(family)
  }

  override def get(key: Array[Byte], family: String): Array[Byte] = {
    val value = super.get(key, family)
    if (counts(family)) presence.update(hash(key, family), value != null)
    value
  }

  override def put(key: Array[Byte], value: Array[Byte], family: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit = {
    becomes(key, family, there = true)
    super.put(key, value, family, includesPrefix, deriveCfName)
  }

  override def putList(
      key: Array[Byte],
      values: List[Array[Byte]],
      family: String,
      includesPrefix: Boolean,
      deriveCfName: Boolean
  ): Unit = {
    becomes(key, family, there = true)
    super.putList(key, values, family, includesPrefix, deriveCfName)
  }

  override def merge(key: Array[Byte], value: Array[Byte], family: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit = {
    becomes(key, family, there = true)
    super.merge(key, value, family, includesPrefix, deriveCfName)
  }

  override def mergeList(
      key: Array[Byte],
      values: List[Array[Byte]],
      family: String,
      includesPrefix: Boolean,
      deriveCfName: Boolean
  ): Unit = {
    becomes(key, family, there = true)
    super.mergeList(key, values, family, includesPrefix, deriveCfName)
  }

  override def remove(key: Array[Byte], family: String, includesPrefix: Boolean, deriveCfName: Boolean): Unit = {
    becomes(key, family, there = false)
    super.remove(key, family, includesPrefix, deriveCfName)
  }

  override def iterator(): NextIterator[ByteArrayPair] = noting(super.iterator(), StateStore.DEFAULT_COL_FAMILY_NAME)

  override def prefixScan(prefix: Array[Byte], family: String): NextIterator[ByteArrayPair] =
    noting(super.prefixScan(prefix, family), family)

  /** Count expired rows, which are removed right after the iteration over them. */
  private def noting(pairs: NextIterator[ByteArrayPair], family: String) = new NextIterator[ByteArrayPair] {
    override protected def getNext(): ByteArrayPair =
      if (pairs.hasNext) {
        val pair = pairs.next()
        iterated = pair.key
        iteratedFamily = family
        pair
      } else {
        finished = true
        null
      }

    override protected def close(): Unit = pairs.closeIfNeeded()
  }

  private def becomes(key: Array[Byte], family: String, there: Boolean): Unit = if (counts(family)) {
    val hashed = hash(key, family)
    val known = presence.getOrNull(hashed)
    val before =
      if (known != null) known.booleanValue
      else !added && ((family == iteratedFamily && Arrays.equals(key, iterated)) || super.get(key, family) != null)
    if (there && !before) rows += 1 else if (before && !there) rows -= 1
    presence.update(hashed, there)
  }

  private def counts(family: String): Boolean = rows != Unknown && !internal.contains(family)

  private def hash(key: Array[Byte], family: String): Long =
    XXH64.hashUnsafeBytes(key, Platform.BYTE_ARRAY_OFFSET, key.length, family.hashCode)

  private def forget(): Unit = {
    presence = mutable.LongMap.empty
    iterated = null
  }
}
