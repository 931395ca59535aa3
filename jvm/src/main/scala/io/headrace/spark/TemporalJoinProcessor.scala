package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** A row of either side on its way into the join.
  *
  * @param kind     one of those of [[TemporalJoinProcessor]]
  * @param time     epoch microseconds
  * @param key      null for a left row that matches nothing
  * @param payload  the row as [[PackRow]] bytes; null for a version that says the key is gone
  */
private[spark] final case class JoinInput(kind: Byte, time: Long, key: Array[Byte], payload: Array[Byte])

/** A left row with the version that was valid at its time; `right` is null when none was. */
private[spark] final case class JoinOutput(left: Array[Byte], right: Array[Byte])

/** The event-time temporal join of a group of keys. See [[TemporalJoin]] for what it means.
  *
  * Rows and versions wait together for the watermark, and are then gone through in the order of their time: a version
  * becomes the one of its key, a row meets the one that its key has. So one version of each key is all that is kept.
  *
  * @param inner      whether left rows without a version are dropped
  * @param ttlMs      for how long (event time) a version is valid at most; 0: until the next one
  * @param rowFormat  stands for the columns of both sides; state of other columns is refused
  */
private[spark] final class TemporalJoinProcessor(inner: Boolean, ttlMs: Long, rowFormat: Int)
    extends StatefulProcessor[Int, JoinInput, JoinOutput] {
  import TemporalJoinProcessor._

  private val agenda = new Agenda(new StateFormat("temporal join", StateVersion, rowFormat))
  @transient private var versions: MapState[Array[Byte], Array[Byte]] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    agenda.open(getHandle)
    versions = getHandle.getMapState("version", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
  }

  override def handleInputRows(group: Int, rows: Iterator[JoinInput], timers: TimerValues): Iterator[JoinOutput] = {
    val loaded = agenda.load()
    val added = rows.map(row => Due(row.time, row.kind, row.key, row.payload)).to(ArrayBuffer)
    agenda.store(agenda.add(loaded, added), loaded, new EventTime(getHandle, timers))
    Iterator.empty
  }

  override def handleExpiredTimer(group: Int, timers: TimerValues, expired: ExpiredTimerInfo): Iterator[JoinOutput] = {
    val watermarkMs = timers.getCurrentWatermarkInMs()
    val loaded = agenda.load()
    val (rest, due) = agenda.takeDue(loaded.fired(expired.getExpiryTimeInMs(), watermarkMs), watermarkMs)
    val (joined, looks) = advance(due, watermarkMs)
    agenda.store(agenda.add(rest, looks), loaded, new EventTime(getHandle, timers))
    joined.iterator
  }

  /** Goes through what is due; returns the joined rows, and when versions end that have a time to live. */
  private def advance(due: ArrayBuffer[Due], watermarkMs: Long): (ArrayBuffer[JoinOutput], ArrayBuffer[Due]) = {
    val (joined, looks) = (ArrayBuffer.empty[JoinOutput], ArrayBuffer.empty[Due])
    val held = mutable.HashMap.empty[PackedKey, Held]
    def of(key: Array[Byte]): Held = held.getOrElseUpdate(new PackedKey(key), Held.decode(versions.getValue(key)))
    due.foreach { item =>
      item.kind match {
        case Version => of(item.key).replace(item.time, item.payload)
        case Look    => of(item.key)
        case Row =>
          val version = if (item.key == null) null else of(item.key).validAt(item.time, ttlMs)
          if (!inner || version != null) joined += JoinOutput(item.payload, version)
      }
    }
    held.foreachEntry { (key, version) =>
      if (version.isOver(watermarkMs, ttlMs)) versions.removeKey(key.bytes)
      else if (version.isChanged) {
        versions.updateValue(key.bytes, version.encode)
        if (ttlMs > 0) looks += Due(version.time + ttlMs * 1000, Look, key.bytes, null)
      }
    }
    (joined, looks)
  }
}

private[spark] object TemporalJoinProcessor {

  /** Version 1 kept an index, versions and waiting rows for each key. */
  private val StateVersion: Byte = 2

  // In this order among equal times: a row meets the version of its own time.
  final val Version: Byte = 0
  final val Row: Byte = 1
  final val Look: Byte = 2

  private val Never = Long.MinValue

  /** The version of a key that the watermark has passed last; `payload` is null when it said that the key is gone. */
  private final class Held(var time: Long, private var payload: Array[Byte]) {
    var isChanged: Boolean = false

    /** Replace a version with the same time: the later arrival counts; one that was too late is ignored. */
    def replace(at: Long, version: Array[Byte]): Unit = if (at >= time) {
      time = at
      payload = version
      isChanged = true
    }

    def validAt(at: Long, ttlMs: Long): Array[Byte] =
      if (time == Never || at < time || isOver(Agenda.millis(at), ttlMs)) null else payload

    def isOver(ms: Long, ttlMs: Long): Boolean = ttlMs > 0 && time != Never && ms - Agenda.millis(time) >= ttlMs

    def encode: Array[Byte] = {
      val out = ByteBuffer.allocate(8 + (if (payload == null) 0 else payload.length)).putLong(time)
      if (payload != null) out.put(payload)
      out.array()
    }
  }

  private object Held {
    def decode(bytes: Array[Byte]): Held =
      if (bytes == null) new Held(Never, null)
      else {
        // A packed row is never empty.
        val payload = java.util.Arrays.copyOfRange(bytes, 8, bytes.length)
        new Held(ByteBuffer.wrap(bytes).getLong(), if (payload.isEmpty) null else payload)
      }
  }
}
