package io.headrace.spark

import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/** A row of one side of a join.
  *
  * @param weight        how many times it is there; below zero for a moment when it was taken away before it came
  * @param matches       how many rows of the other side it has met, where that is counted
  * @param closesMicros  when it leaves the state, in epoch microseconds; Long.MaxValue: never
  */
private[spark] final class JoinRow(val payload: Array[Byte], var weight: Int, var matches: Int, val closesMicros: Long)

/** Layout of the rows of one side in the state.
  *
  * @param counted  whether each row has its number of matches
  * @param timed    whether each row has the time when it leaves
  */
private[spark] final case class RowLayout(counted: Boolean, timed: Boolean) {
  private val headerBytes = 4 + (if (counted) 4 else 0) + (if (timed) 8 else 0) + 4

  def bytes(row: JoinRow): Int = headerBytes + row.payload.length

  def put(out: ByteBuffer, row: JoinRow): Unit = {
    out.putInt(row.weight)
    if (counted) out.putInt(row.matches)
    if (timed) out.putLong(row.closesMicros)
    out.putInt(row.payload.length).put(row.payload)
  }

  def take(in: ByteBuffer): JoinRow = {
    val weight = in.getInt()
    val matches = if (counted) in.getInt() else 0
    val closesMicros = if (timed) in.getLong() else Long.MaxValue
    val payload = new Array[Byte](in.getInt())
    in.get(payload)
    new JoinRow(payload, weight, matches, closesMicros)
  }
}

/** Storage of the chunks of one side's rows. */
private[spark] trait RowChunks {
  def read(number: Int): Array[Byte]
  def write(number: Int, rows: Array[Byte]): Unit
  def remove(number: Int): Unit
}

/** The rows of one side that one key has: a multiset.
  *
  * A few rows lie in the key's own value. More lie in chunks, found by the row's hash and grown one by one (linear
  * hashing), so that one row more or less reads and writes one chunk however many rows there are.
  */
private[spark] final class JoinRows(layout: RowLayout, store: RowChunks) {
  import JoinRows._

  private var chunkCount = 1
  private var size = 0
  private var bytes = 0L
  private var weights = 0L
  private val loaded = mutable.HashMap.empty[Int, Chunk]

  /** Number of rows with their multiplicity. */
  def total: Long = weights

  def isEmpty: Boolean = size == 0

  /** Calls `visit` for every row; it returns whether it has changed the row's number of matches. */
  def foreach(visit: JoinRow => Boolean): Unit = (0 until chunkCount).foreach { number =>
    val chunk = load(number)
    chunk.rows.foreach(row => if (visit(row)) chunk.changed = true)
  }

  /** Adds `weight` to a row. What is there not once is forgotten. */
  def add(payload: Array[Byte], weight: Int, matches: Int, closesMicros: Long): Unit = {
    val chunk = load(numberOf(payload))
    chunk.changed = true
    weights += weight
    chunk.rows.indexWhere(row => row.closesMicros == closesMicros && Arrays.equals(row.payload, payload)) match {
      case -1 =>
        val row = new JoinRow(payload, weight, matches, closesMicros)
        chunk.rows += row
        size += 1
        bytes += layout.bytes(row)
        while (bytes > chunkCount.toLong * ChunkBytes) grow()
      case at =>
        val row = chunk.rows(at)
        row.weight += weight
        if (row.weight == 0) {
          chunk.rows.remove(at)
          forget(row)
        }
    }
  }

  /** Takes the rows out that leave by `watermarkMicros`. */
  def close(watermarkMicros: Long)(closed: JoinRow => Unit): Unit = (0 until chunkCount).foreach { number =>
    val chunk = load(number)
    val (gone, kept) = chunk.rows.partition(_.closesMicros <= watermarkMicros)
    if (gone.nonEmpty) {
      chunk.rows = kept
      chunk.changed = true
      gone.foreach { row =>
        weights -= row.weight
        forget(row)
        closed(row)
      }
    }
  }

  /** Time at which the first, or the last, of the rows leaves. */
  def closing(first: Boolean): Long = {
    var micros = if (first) Long.MaxValue else Long.MinValue
    foreach { row =>
      micros = if (first) math.min(micros, row.closesMicros) else math.max(micros, row.closesMicros)
      false
    }
    micros
  }

  def clear(): Unit = {
    if (chunkCount > 1) (0 until chunkCount).foreach(store.remove)
    loaded.clear()
    chunkCount = 1
    size = 0
    bytes = 0
    weights = 0
  }

  /** Number of bytes that `put` writes. */
  def headBytes: Int = HeadBytes + (if (chunkCount == 1) bytes.toInt else 0)

  /** Writes what changed, and what belongs into the key's own value. */
  def put(out: ByteBuffer): Unit = {
    if (size == 0) clear()
    out.putInt(chunkCount).putInt(size).putLong(bytes).putLong(weights)
    if (chunkCount == 1) load(0).rows.foreach(layout.put(out, _))
    else
      loaded.foreachEntry { (number, chunk) =>
        if (chunk.changed) {
          val rows = ByteBuffer.allocate(chunk.rows.iterator.map(layout.bytes).sum)
          chunk.rows.foreach(layout.put(rows, _))
          store.write(number, rows.array())
        }
      }
  }

  def take(in: ByteBuffer): Unit = {
    chunkCount = in.getInt()
    size = in.getInt()
    bytes = in.getLong()
    weights = in.getLong()
    if (chunkCount == 1) loaded(0) = new Chunk(ArrayBuffer.fill(size)(layout.take(in)))
  }

  private def load(number: Int): Chunk = loaded.getOrElseUpdate(
    number, {
      val stored = if (chunkCount == 1) null else store.read(number)
      val rows = ArrayBuffer.empty[JoinRow]
      if (stored != null) {
        val in = ByteBuffer.wrap(stored)
        while (in.hasRemaining) rows += layout.take(in)
      }
      new Chunk(rows)
    }
  )

  private def forget(row: JoinRow): Unit = {
    size -= 1
    bytes -= layout.bytes(row)
  }

  /** Add a chunk, which takes its rows from the one that had them. */
  private def grow(): Unit = {
    val number = chunkCount
    val from = load(number - Integer.highestOneBit(number))
    chunkCount += 1
    val (moved, kept) = from.rows.partition(row => numberOf(row.payload) == number)
    from.rows = kept
    from.changed = true
    val made = new Chunk(moved)
    made.changed = true
    loaded(number) = made
  }

  private def numberOf(payload: Array[Byte]): Int =
    if (chunkCount == 1) 0
    else {
      val low = Integer.highestOneBit(chunkCount)
      val wide = PackedKey.hash(payload) & (2 * low - 1)
      if (wide < chunkCount) wide else wide & (low - 1)
    }
}

private[spark] object JoinRows {
  private val ChunkBytes = 4 * 1024
  private val HeadBytes = 4 + 4 + 8 + 8

  private final class Chunk(var rows: ArrayBuffer[JoinRow]) {
    var changed: Boolean = false
  }
}
