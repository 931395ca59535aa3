package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A function over a frame of one partition at a time: rows enter the frame in order, and leave it in the same order. */
private[spark] abstract class FrameCall extends Serializable {

  /** True if `leave` and `result` read the rows of a frame that has a beginning. */
  def readsRows: Boolean

  def clear(): Unit

  /** Add the row with the number `sequence`, of the rows that ever entered. */
  def enter(row: UnsafeRow, sequence: Long): Unit

  /** Take away the row with the number `sequence`; `row` is null unless `readsRows`. */
  def leave(row: UnsafeRow, sequence: Long): Unit

  /** The value for the row that entered last, as Spark holds values inside of rows. */
  def result(row: UnsafeRow, frame: FrameRows): Any

  def size: Int
  def write(out: ByteBuffer): Unit
  def read(in: ByteBuffer): Unit
}

/** An aggregate from which rows can be subtracted, or of a frame that no row leaves. */
private[spark] final class FoldedCall(call: PlannedCall) extends FrameCall {
  private val (accumulator, counts) = (call.accumulator, call.counts)

  override def readsRows: Boolean = true
  override def clear(): Unit = accumulator.clear()
  override def enter(row: UnsafeRow, sequence: Long): Unit = if (isCounted(row)) accumulator.add(row, 1)
  override def leave(row: UnsafeRow, sequence: Long): Unit = if (isCounted(row)) accumulator.add(row, -1)
  override def result(row: UnsafeRow, frame: FrameRows): Any = accumulator.result
  override def size: Int = accumulator.size
  override def write(out: ByteBuffer): Unit = accumulator.write(out)
  override def read(in: ByteBuffer): Unit = accumulator.read(in)

  private def isCounted(row: UnsafeRow): Boolean = counts < 0 || row.getBoolean(counts)
}

/** MIN or MAX of a frame that rows leave: the values that may still become the result, best first. A value is forgotten when
  * a later one is as good, so that there are few unless the values become worse and worse.
  */
private[spark] final class SlidingExtreme(value: Int, values: Values, greatest: Boolean) extends FrameCall {
  private val candidates = mutable.ArrayDeque.empty[(Long, Array[Byte])]

  override def readsRows: Boolean = false
  override def clear(): Unit = candidates.clear()

  override def enter(row: UnsafeRow, sequence: Long): Unit = {
    val bytes = row.getBinary(value)
    if (values.of(bytes) != null) {
      while (candidates.nonEmpty && !precedes(candidates.last._2, bytes)) candidates.dropRightInPlace(1)
      candidates += sequence -> bytes
    }
  }

  override def leave(row: UnsafeRow, sequence: Long): Unit =
    if (candidates.nonEmpty && candidates.head._1 == sequence) candidates.dropInPlace(1)

  override def result(row: UnsafeRow, frame: FrameRows): Any =
    if (candidates.isEmpty) null else values.of(candidates.head._2)

  private def precedes(left: Array[Byte], right: Array[Byte]): Boolean = {
    val order = values.compare(left, right)
    if (greatest) order > 0 else order < 0
  }

  override def size: Int = 4 + candidates.iterator.map(12 + _._2.length).sum
  override def write(out: ByteBuffer): Unit = {
    out.putInt(candidates.size)
    candidates.foreach { case (sequence, bytes) => Accumulator.put(out.putLong(sequence), bytes) }
  }
  override def read(in: ByteBuffer): Unit = {
    candidates.clear()
    for (_ <- 0 until in.getInt()) candidates += in.getLong() -> Accumulator.bytes(in)
  }
}

/** A value that is read from a row, so that nothing but the rows is kept. */
private[spark] sealed abstract class ReadCall extends FrameCall {
  override def clear(): Unit = ()
  override def enter(row: UnsafeRow, sequence: Long): Unit = ()
  override def leave(row: UnsafeRow, sequence: Long): Unit = ()
  override def size: Int = 0
  override def write(out: ByteBuffer): Unit = ()
  override def read(in: ByteBuffer): Unit = ()
}

/** FIRST_VALUE of a frame that rows leave. */
private[spark] final class OldestValue(value: Int, values: Values) extends ReadCall {
  override def readsRows: Boolean = true
  override def result(row: UnsafeRow, frame: FrameRows): Any = values.of(frame.oldest.getBinary(value))
}

/** LAST_VALUE: the current row is the last one of its frame. */
private[spark] final class NewestValue(value: Int, values: Values) extends ReadCall {
  override def readsRows: Boolean = false
  override def result(row: UnsafeRow, frame: FrameRows): Any = values.of(row.getBinary(value))
}

/** LAG: the frame begins with the row that is read, if there is one.
  *
  * @param default  of the current row, where there is none; -1: NULL
  */
private[spark] final class LaggedValue(value: Int, default: Int, values: Values, offset: Long) extends ReadCall {
  override def readsRows: Boolean = true
  override def result(row: UnsafeRow, frame: FrameRows): Any =
    if (frame.count > offset) values.of(frame.oldest.getBinary(value))
    else if (default >= 0) values.of(row.getBinary(default))
    else null
}
