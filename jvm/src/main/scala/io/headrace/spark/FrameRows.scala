package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streaming.MapState

/** The rows of one frame of one partition at a time, oldest first, for the moment at which they leave it.
  *
  * New rows are part of the partition's state; when these become many they move into chunks of their own. What a batch costs
  * then depends on the rows that enter and leave in it, and not on how many lie between.
  *
  * @param columns  how many a row has
  * @param place    which of the operator's frames this is
  * @param chunks   of all partitions and frames, by partition, frame and number
  */
private[spark] final class FrameRows(columns: Int, place: Int, chunks: MapState[Array[Byte], Array[Byte]]) {
  import FrameRows._

  private val head, tail = mutable.ArrayDeque.empty[FrameRow]
  private val row = new UnsafeRow(columns)
  private var key: Array[Byte] = _
  // The chunks from `first` to before `next`; of the first one so many rows have left already.
  private var first, next, left = 0
  private var isHeadRead = false
  private var oldestMicros = Unknown
  private var total = 0L

  /** Number of rows. */
  def count: Long = total

  /** Turns to the partition `of`, without rows yet. */
  def open(of: Array[Byte]): Unit = {
    key = of
    head.clear()
    tail.clear()
    first = 0
    next = 0
    left = 0
    total = 0
    isHeadRead = false
    oldestMicros = Unknown
  }

  def enter(time: Long, bytes: Array[Byte]): Unit = {
    tail += FrameRow(time, bytes)
    total += 1
  }

  /** Time of the oldest row, of which there must be one. */
  def oldestTime: Long = if (first < next && !isHeadRead && oldestMicros != Unknown) oldestMicros else front.time

  /** The oldest row, of which there must be one; valid until the next call. */
  def oldest: UnsafeRow = {
    val bytes = front.bytes
    row.pointTo(bytes, bytes.length)
    row
  }

  /** Takes the oldest row away. */
  def leave(): Unit = {
    total -= 1
    if (first == next) tail.dropInPlace(1)
    else {
      readHead()
      head.dropInPlace(1)
      left += 1
      if (head.isEmpty) {
        chunks.removeKey(chunkKey(first))
        first += 1
        left = 0
        isHeadRead = false
        oldestMicros = Unknown
      }
    }
  }

  /** Forgets all rows. */
  def clear(): Unit = {
    for (chunk <- first until next) chunks.removeKey(chunkKey(chunk))
    open(key)
  }

  private def front: FrameRow =
    if (first == next) tail.head
    else {
      readHead()
      head.head
    }

  private def readHead(): Unit = if (!isHeadRead) {
    val in = ByteBuffer.wrap(chunks.getValue(chunkKey(first)))
    head.clear()
    while (in.hasRemaining) head += FrameRow(in.getLong(), Accumulator.bytes(in))
    head.dropInPlace(left)
    isHeadRead = true
  }

  private def chunkKey(chunk: Int): Array[Byte] =
    ByteBuffer.allocate(key.length + 8).put(key).putInt(place).putInt(chunk).array()

  /** Moves rows into chunks if they have become many: before `size` and `write`. */
  def settle(): Unit =
    if (bytesOf(tail) > TailBytes)
      while (tail.nonEmpty) {
        val chunk = mutable.ArrayBuffer.empty[FrameRow]
        var bytes = 0
        while (tail.nonEmpty && (bytes == 0 || bytes + tail.head.size <= TailBytes)) {
          bytes += tail.head.size
          chunk += tail.removeHead()
        }
        if (first == next) oldestMicros = chunk.head.time
        chunks.updateValue(chunkKey(next), encoded(chunk, bytes))
        next += 1
      }

  def size: Int = 8 + 4 + 4 + 4 + 8 + 4 + bytesOf(tail)

  def write(out: ByteBuffer): Unit = {
    val oldest = if (first == next) Unknown else oldestTime
    out.putLong(total).putInt(first).putInt(next).putInt(left).putLong(oldest).putInt(tail.size)
    tail.foreach(row => Accumulator.put(out.putLong(row.time), row.bytes))
  }

  def read(in: ByteBuffer): Unit = {
    total = in.getLong()
    first = in.getInt()
    next = in.getInt()
    left = in.getInt()
    oldestMicros = in.getLong()
    for (_ <- 0 until in.getInt()) tail += FrameRow(in.getLong(), Accumulator.bytes(in))
  }
}

private[spark] object FrameRows {

  /** Bytes of a frame that are read and written with its partition, at most. */
  private val TailBytes = 8 * 1024

  private val Unknown = Long.MinValue

  private final case class FrameRow(time: Long, bytes: Array[Byte]) {
    def size: Int = 12 + bytes.length
  }

  private def bytesOf(rows: Iterable[FrameRow]): Int = rows.iterator.map(_.size).sum

  private def encoded(rows: Iterable[FrameRow], bytes: Int): Array[Byte] = {
    val out = ByteBuffer.allocate(bytes)
    rows.foreach(row => Accumulator.put(out.putLong(row.time), row.bytes))
    out.array()
  }
}
