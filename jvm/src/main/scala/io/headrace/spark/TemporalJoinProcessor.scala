package io.headrace.spark

import scala.collection.immutable.ArraySeq
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** A row of either side on its way into the join.
  *
  * @param right    whether it is a version, and not a row to be joined
  * @param time     epoch microseconds
  * @param payload  the row as [[PackRow]] bytes; null for a version that says the key is gone
  */
private[spark] final case class JoinInput(right: Boolean, time: Long, payload: Array[Byte])

/** A left row with the version that was valid at its time; `right` is null when none was. */
private[spark] final case class JoinOutput(left: Array[Byte], right: Array[Byte])

/** The event-time temporal join of one key. See [[TemporalJoin]] for what it means.
  *
  * State of a key: an index, the versions by time, and the waiting left rows in chunks, one for each batch that brought
  * some. The index says which chunks and versions are due, so that a timer reads those and no others; what is not due
  * costs nothing, however much waits. A key needs one timer at a time, at its first moment of interest.
  *
  * @param inner      whether left rows without a version are dropped
  * @param ttlMs      for how long (event time) a version is valid at most; 0: until the next one
  * @param rowFormat  stands for the columns of both sides; state of other columns is refused
  */
private[spark] final class TemporalJoinProcessor(inner: Boolean, ttlMs: Long, rowFormat: Int)
    extends StatefulProcessor[Array[Byte], JoinInput, JoinOutput] {
  import TemporalJoinProcessor._

  @transient private var indexes: ValueState[Array[Byte]] = _
  @transient private var versions: MapState[Long, Array[Byte]] = _
  @transient private var chunks: MapState[Int, Array[Byte]] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    indexes = getHandle.getValueState("index", Encoders.BINARY, TTLConfig.NONE)
    versions = getHandle.getMapState("versions", Encoders.scalaLong, Encoders.BINARY, TTLConfig.NONE)
    chunks = getHandle.getMapState("chunks", Encoders.scalaInt, Encoders.BINARY, TTLConfig.NONE)
  }

  override def handleInputRows(
      key: Array[Byte],
      rows: Iterator[JoinInput],
      timers: TimerValues
  ): Iterator[JoinOutput] = {
    val waiting = ArrayBuffer.empty[BufferedRow]
    val arrived = ArrayBuffer.empty[JoinInput]
    rows.foreach(row => if (row.right) arrived += row else waiting += BufferedRow(row.time, row.payload))
    var index = load()
    if (arrived.nonEmpty) index = addVersions(index, arrived)
    if (waiting.nonEmpty) index = addChunk(index, waiting)
    // Without a row that is due this very batch, versions that no row can meet any more go at once.
    val watermarkMs = timers.getCurrentWatermarkInMs()
    if (arrived.nonEmpty && !index.chunks.exists(chunk => isDue(chunk.minTime, watermarkMs)))
      index = prune(index, watermarkMs)
    store(arm(index))
    Iterator.empty
  }

  override def handleExpiredTimer(
      key: Array[Byte],
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[JoinOutput] = {
    val watermarkMs = timers.getCurrentWatermarkInMs()
    val index = load()
    val fired = index.copy(timersMs = index.timersMs.filter(_ != expired.getExpiryTimeInMs()))
    val (rest, due) = takeDue(fired, watermarkMs)
    val joined = join(rest, due)
    store(arm(prune(rest, watermarkMs)))
    joined.iterator
  }

  private def load(): KeyIndex = Option(indexes.get()).fold(KeyIndex.Empty)(KeyIndex.decode(_, rowFormat))

  private def store(index: KeyIndex): Unit =
    if (index.isEmpty) indexes.clear() else indexes.update(KeyIndex.encode(index, rowFormat))

  /** Of two versions with the same time, the one that came last counts. */
  private def addVersions(index: KeyIndex, arrived: collection.Seq[JoinInput]): KeyIndex = {
    arrived.foreach(row => versions.updateValue(row.time, if (row.payload == null) Gone else row.payload))
    index.copy(versions = ArraySeq.from((index.versions ++ arrived.map(_.time)).distinct.sorted))
  }

  private def addChunk(index: KeyIndex, rows: ArrayBuffer[BufferedRow]): KeyIndex = {
    rows.sortInPlaceBy(_.time)
    chunks.updateValue(index.nextChunk, Chunk.encode(rows))
    index.copy(nextChunk = index.nextChunk + 1, chunks = index.chunks :+ ChunkRef(index.nextChunk, rows.head.time))
  }

  /** Takes the rows that the watermark has passed out of the state, in the order of their time. */
  private def takeDue(index: KeyIndex, watermarkMs: Long): (KeyIndex, collection.Seq[BufferedRow]) = {
    val (dueChunks, laterChunks) = index.chunks.partition(chunk => isDue(chunk.minTime, watermarkMs))
    val due = ArrayBuffer.empty[BufferedRow]
    val split = dueChunks.flatMap { chunk =>
      val (ready, later) = Chunk.decode(chunks.getValue(chunk.id)).span(row => isDue(row.time, watermarkMs))
      due ++= ready
      if (later.isEmpty) {
        chunks.removeKey(chunk.id)
        None
      } else {
        chunks.updateValue(chunk.id, Chunk.encode(later.toSeq))
        Some(ChunkRef(chunk.id, later.head.time))
      }
    }
    if (dueChunks.size > 1) due.sortInPlaceBy(_.time)
    (index.copy(chunks = laterChunks ++ split), due)
  }

  private def join(index: KeyIndex, due: collection.Seq[BufferedRow]): collection.Seq[JoinOutput] = {
    // The rows come in order of time: each version is read once, for all rows that meet it.
    var at = -1
    var version: Array[Byte] = null
    due.flatMap { row =>
      val found = index.versionAt(row.time)
      if (found != at) {
        at = found
        version = if (found < 0) null else Some(versions.getValue(index.versions(found))).filter(_.nonEmpty).orNull
      }
      val valid = if (at >= 0 && !isExpired(index.versions(at), row.time)) version else null
      Option.when(!inner || valid != null)(JoinOutput(row.payload, valid))
    }
  }

  /** Forgets the versions that no row after the watermark can meet. */
  private def prune(index: KeyIndex, watermarkMs: Long): KeyIndex = {
    val passed = lastMicros(watermarkMs)
    val newest = index.versionAt(passed)
    val first = if (newest >= 0 && isExpired(index.versions(newest), passed + 1)) newest + 1 else math.max(newest, 0)
    if (first == 0) index
    else {
      index.versions.take(first).foreach(versions.removeKey)
      index.copy(versions = index.versions.drop(first))
    }
  }

  /** Sees to it that a timer is registered no later than the next moment at which something becomes due. */
  private def arm(index: KeyIndex): KeyIndex = {
    val rowMs = index.chunks.iterator.map(chunk => millis(chunk.minTime)).minOption
    val expiryMs = if (ttlMs > 0) index.versions.lastOption.map(time => millis(time) + ttlMs) else None
    (rowMs ++ expiryMs).minOption match {
      case Some(ms) if index.timersMs.headOption.forall(_ > ms) =>
        getHandle.registerTimer(ms)
        index.copy(timersMs = ms +: index.timersMs)
      case _ => index
    }
  }

  private def isExpired(version: Long, atTime: Long): Boolean = ttlMs > 0 && millis(atTime) - millis(version) >= ttlMs
}

private[spark] object TemporalJoinProcessor {

  /** What the state holds for a version that says the key is gone: a packed row is never empty. */
  private val Gone: Array[Byte] = Array.emptyByteArray

  private def millis(micros: Long): Long = Math.floorDiv(micros, 1000L)

  /** The last microsecond that a watermark stands for. */
  private def lastMicros(watermarkMs: Long): Long = watermarkMs * 1000 + 999

  private def isDue(time: Long, watermarkMs: Long): Boolean = millis(time) <= watermarkMs
}
