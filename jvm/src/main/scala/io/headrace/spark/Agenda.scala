package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.immutable.ArraySeq
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** Something that waits for the watermark.
  *
  * @param time     epoch microseconds; it is due when the watermark has reached its millisecond
  * @param kind     what it is, up to the operator; among equal times the smallest comes first, then what came first
  * @param key      null for what belongs to no key
  * @param payload  null for none
  */
private[spark] final case class Due(time: Long, kind: Byte, key: Array[Byte], payload: Array[Byte])

/** Agenda of a group of keys in order of time: waiting rows, and keys to look at.
  *
  * It lies in chunks of some tens of kilobytes, and an index says from which time on each has something. So the cost of
  * what is not due is nothing, however much waits, and what is due is read and written in large pieces. A group needs one
  * timer at a time. Small chunks are merged: rows that come one by one cost about as much as rows in batches.
  *
  * The index is kept for good, since it says whose state the group's is.
  *
  * @param format  of the operator's whole state
  */
private[spark] final class Agenda(format: StateFormat) extends Serializable {
  import Agenda._

  @transient private var indexes: ValueState[Array[Byte]] = _
  @transient private var chunks: MapState[Int, Array[Byte]] = _

  def open(handle: StatefulProcessorHandle): Unit = open(
    handle.getValueState("agenda", Encoders.BINARY, TTLConfig.NONE),
    handle.getMapState("due", Encoders.scalaInt, Encoders.BINARY, TTLConfig.NONE)
  )

  def open(indexes: ValueState[Array[Byte]], chunks: MapState[Int, Array[Byte]]): Unit = {
    this.indexes = indexes
    this.chunks = chunks
  }

  /** Throws IllegalStateException for state of another version or of other columns. */
  def load(): AgendaIndex = Option(indexes.get()).fold(AgendaIndex.Empty)(decode)

  /** Keeps `index`, and sees to it that the group is woken for what is due first. `loaded` is what `load` gave. */
  def store(index: AgendaIndex, loaded: AgendaIndex, time: OperatorTime): Unit = {
    val armed = index.firstMs match {
      case Some(ms) if index.timersMs.headOption.forall(_ > ms) =>
        time.wakeAt(ms)
        index.copy(timersMs = ms +: index.timersMs)
      case _ => index
    }
    if ((armed ne loaded) || (armed eq AgendaIndex.Empty)) indexes.update(encode(armed))
  }

  def add(index: AgendaIndex, added: ArrayBuffer[Due]): AgendaIndex =
    if (added.isEmpty) index
    else {
      val size = added.iterator.map(bytes).sum
      val (small, kept) = smallChunks(index.chunks, size)
      val due = ArrayBuffer.empty[Due]
      small.foreach { chunk =>
        due ++= decodeChunk(chunks.getValue(chunk.id))
        chunks.removeKey(chunk.id)
      }
      due ++= added
      due.sortInPlace()(InOrder)
      val made = write(index.nextChunk, due)
      index.copy(nextChunk = index.nextChunk + made.size, chunks = kept ++ made)
    }

  /** Takes what the watermark has passed out of the state, in order. */
  def takeDue(index: AgendaIndex, watermarkMs: Long): (AgendaIndex, ArrayBuffer[Due]) = {
    val due = ArrayBuffer.empty[Due]
    var (nextChunk, opened) = (index.nextChunk, 0)
    // What is left of a chunk takes its place: chunks stay in the order in which they came.
    val rest = index.chunks.flatMap { chunk =>
      if (millis(chunk.minTime) > watermarkMs) ArraySeq(chunk)
      else {
        val (ready, later) = decodeChunk(chunks.getValue(chunk.id)).span(item => millis(item.time) <= watermarkMs)
        due ++= ready
        opened += 1
        chunks.removeKey(chunk.id)
        val made = write(nextChunk, later)
        nextChunk += made.size
        made
      }
    }
    if (opened > 1) due.sortInPlace()(InOrder)
    (index.copy(nextChunk = nextChunk, chunks = rest), due)
  }

  /** The last chunks, as long as they are no larger than what is written with them. */
  private def smallChunks(all: ArraySeq[ChunkRef], size: Int): (ArraySeq[ChunkRef], ArraySeq[ChunkRef]) = {
    var (from, together) = (all.size, size)
    while (from > 0 && all(from - 1).bytes <= together && together + all(from - 1).bytes <= ChunkBytes) {
      from -= 1
      together += all(from).bytes
    }
    val (kept, small) = all.splitAt(from)
    (small, kept)
  }

  private def write(firstId: Int, due: collection.Seq[Due]): ArraySeq[ChunkRef] = {
    val made = ArraySeq.newBuilder[ChunkRef]
    var (id, at) = (firstId, 0)
    while (at < due.size) {
      var (end, size) = (at, 0)
      while (end < due.size && (size == 0 || size + bytes(due(end)) <= ChunkBytes)) {
        size += bytes(due(end))
        end += 1
      }
      chunks.updateValue(id, encodeChunk(due.view.slice(at, end), size))
      made += ChunkRef(id, due(at).time, size)
      id += 1
      at = end
    }
    made.result()
  }

  private def encode(index: AgendaIndex): Array[Byte] = {
    val out = ByteBuffer.allocate(StateFormat.Bytes + 8 + 4 + 4 + 8 * index.timersMs.size + 4 + 16 * index.chunks.size)
    format.put(out)
    out.putLong(index.closedMs).putInt(index.nextChunk).putInt(index.timersMs.size)
    index.timersMs.foreach(ms => out.putLong(ms))
    out.putInt(index.chunks.size)
    index.chunks.foreach(chunk => out.putInt(chunk.id).putLong(chunk.minTime).putInt(chunk.bytes))
    out.array()
  }

  private def decode(bytes: Array[Byte]): AgendaIndex = {
    val in = ByteBuffer.wrap(bytes)
    format.check(in)
    val (closedMs, nextChunk) = (in.getLong(), in.getInt())
    val timersMs = ArraySeq.fill(in.getInt())(in.getLong())
    AgendaIndex(closedMs, timersMs, nextChunk, ArraySeq.fill(in.getInt())(ChunkRef(in.getInt(), in.getLong(), in.getInt())))
  }
}

/** Index of an agenda, without its chunks.
  *
  * @param closedMs   up to where the watermark has been handled
  * @param timersMs   the registered timers, ascending
  * @param nextChunk  the id of the next chunk
  * @param chunks     in the order in which they came
  */
private[spark] final case class AgendaIndex(
    closedMs: Long,
    timersMs: ArraySeq[Long],
    nextChunk: Int,
    chunks: ArraySeq[ChunkRef]
) {

  /** Time of the next entry. */
  def firstMs: Option[Long] = chunks.iterator.map(_.minTime).minOption.map(Agenda.millis)

  /** The index after the timer at `timerMs` fired, with the watermark at `watermarkMs`. */
  def fired(timerMs: Long, watermarkMs: Long): AgendaIndex =
    copy(closedMs = math.max(closedMs, watermarkMs), timersMs = timersMs.filter(_ != timerMs))
}

private[spark] object AgendaIndex {
  val Empty: AgendaIndex = AgendaIndex(Long.MinValue, ArraySeq.empty[Long], 0, ArraySeq.empty[ChunkRef])
}

private[spark] final case class ChunkRef(id: Int, minTime: Long, bytes: Int)

private[spark] object Agenda {
  private val ChunkBytes = 32 * 1024

  private val InOrder: Ordering[Due] = (one, other) => {
    val byTime = java.lang.Long.compare(one.time, other.time)
    if (byTime != 0) byTime else one.kind - other.kind
  }

  def millis(micros: Long): Long = Math.floorDiv(micros, 1000L)

  private def bytes(due: Due): Int = 8 + 1 + size(due.key) + size(due.payload)

  private def size(bytes: Array[Byte]): Int = 4 + (if (bytes == null) 0 else bytes.length)

  private def encodeChunk(due: Iterable[Due], size: Int): Array[Byte] = {
    val out = ByteBuffer.allocate(size)
    due.foreach { item =>
      out.putLong(item.time).put(item.kind)
      put(out, item.key)
      put(out, item.payload)
    }
    out.array()
  }

  private def decodeChunk(bytes: Array[Byte]): ArrayBuffer[Due] = {
    val in = ByteBuffer.wrap(bytes)
    val due = ArrayBuffer.empty[Due]
    while (in.hasRemaining) due += Due(in.getLong(), in.get(), take(in), take(in))
    due
  }

  private def put(out: ByteBuffer, bytes: Array[Byte]): Unit =
    if (bytes == null) out.putInt(-1) else out.putInt(bytes.length).put(bytes)

  private def take(in: ByteBuffer): Array[Byte] = {
    val length = in.getInt()
    if (length < 0) null
    else {
      val bytes = new Array[Byte](length)
      in.get(bytes)
      bytes
    }
  }
}
