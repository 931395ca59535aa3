package io.headrace.spark

import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.{BaseOrdering, UnsafeRow}
import org.apache.spark.sql.streaming.MapState

/** A row of a partition. `count` is above 1 only for equal rows that were once put away together. */
private[spark] final class RankedRow(val bytes: Array[Byte], val arrival: Long, var count: Int, columns: Int) {
  val row: UnsafeRow = new UnsafeRow(columns)
  row.pointTo(bytes, bytes.length)
}

/** The rows of one partition in order. The first few are at hand, in the partition's one value of state; the others are
  * kept beside it, and are looked through only when too few are left at hand. Of rows that are equal in order, the one
  * that came first goes first, or with `newestFirst` the one that came last.
  *
  * @param order    by which rows are compared
  * @param columns  how many a row has
  * @param needed   how many rows must be known
  * @param rest     the rows that are not at hand: bytes -> arrival, count; null when rows are never taken away, and all
  *                 but the first `needed` are forgotten
  */
private[spark] final class Ranking(
    order: BaseOrdering,
    columns: Int,
    needed: Int,
    rest: MapState[Array[Byte], Array[Byte]],
    newestFirst: Boolean
) {
  private val atHand = if (rest == null) needed else 2 * needed + 6
  private val rows = ArrayBuffer.empty[RankedRow]
  private val debts = ArrayBuffer.empty[Array[Byte]] // taken away before they came
  private val probe = new UnsafeRow(columns)
  private var away = 0L
  private var arrivals = 0L
  private var changed = false

  def clear(): Unit = {
    rows.clear()
    debts.clear()
    away = 0
    arrivals = 0
    changed = false
  }

  def isBlank: Boolean = rows.isEmpty && debts.isEmpty && away == 0

  /** True if it was changed since it was read. */
  def isChanged: Boolean = changed

  /** The first rows, at most `needed`. */
  def first: Array[Array[Byte]] = {
    refill()
    val out = new Array[Array[Byte]](math.min(needed.toLong, rows.foldLeft(0L)(_ + _.count)).toInt)
    var (at, from) = (0, 0)
    while (at < out.length) {
      val row = rows(from)
      var n = 0
      while (n < row.count && at < out.length) {
        out(at) = row.bytes
        at += 1
        n += 1
      }
      from += 1
    }
    out
  }

  def add(bytes: Array[Byte]): Unit = {
    val owed = if (debts.isEmpty) -1 else debts.indexWhere(Arrays.equals(_, bytes))
    if (owed >= 0) {
      debts.remove(owed)
      changed = true
    } else {
      probe.pointTo(bytes, bytes.length)
      val precedesLast = rows.nonEmpty && {
        val compared = order.compare(probe, rows.last.row)
        compared < 0 || (compared == 0 && newestFirst)
      }
      if (precedesLast || (away == 0 && rows.size < atHand)) {
        insert(new RankedRow(bytes, arrivals, 1, columns))
        changed = true
      } else if (rest != null) putAway(bytes, arrivals, 1)
      arrivals += 1
    }
  }

  def remove(bytes: Array[Byte]): Unit = {
    changed = true
    val at = rows.lastIndexWhere(row => Arrays.equals(row.bytes, bytes))
    if (away > 0 && rest.containsKey(bytes)) {
      // Of equal rows the ones that came last are away.
      val kept = ByteBuffer.wrap(rest.getValue(bytes))
      val (arrival, count) = (kept.getLong(), kept.getInt())
      if (count > 1) rest.updateValue(bytes, Ranking.entry(arrival, count - 1))
      else {
        rest.removeKey(bytes)
        away -= 1
      }
    } else if (at < 0) debts += bytes
    else if (rows(at).count > 1) rows(at).count -= 1
    else rows.remove(at)
  }

  private def insert(row: RankedRow): Unit = {
    var at = rows.size
    while (at > 0 && follows(rows(at - 1), row)) at -= 1
    rows.insert(at, row)
    if (rows.size > atHand) {
      val last = rows.remove(rows.size - 1)
      if (rest != null) putAway(last.bytes, last.arrival, last.count)
    }
  }

  private def follows(left: RankedRow, right: RankedRow): Boolean = {
    val compared = order.compare(left.row, right.row)
    compared > 0 || (compared == 0 && (left.arrival > right.arrival) != newestFirst)
  }

  private def putAway(bytes: Array[Byte], arrival: Long, count: Int): Unit = {
    changed = true
    if (away > 0 && rest.containsKey(bytes)) {
      val kept = ByteBuffer.wrap(rest.getValue(bytes))
      val known = kept.getLong()
      val first = if (newestFirst) math.max(known, arrival) else math.min(known, arrival)
      rest.updateValue(bytes, Ranking.entry(first, kept.getInt() + count))
    } else {
      rest.updateValue(bytes, Ranking.entry(arrival, count))
      away += 1
    }
  }

  /** Takes the best of the rows that are away, when fewer than needed are at hand. */
  private def refill(): Unit = if (rows.size < needed && away > 0) {
    val top = ArrayBuffer.empty[RankedRow]
    val room = atHand - rows.size
    rest.iterator().foreach { case (bytes, entry) =>
      val kept = ByteBuffer.wrap(entry)
      val row = new RankedRow(bytes, kept.getLong(), kept.getInt(), columns)
      if (top.size < room || follows(top.last, row)) {
        var at = top.size
        while (at > 0 && follows(top(at - 1), row)) at -= 1
        top.insert(at, row)
        if (top.size > room) top.remove(room)
      }
    }
    top.foreach { row =>
      rest.removeKey(row.bytes)
      rows += row
    }
    away -= top.size
    changed = true
  }

  def size: Int = rows.foldLeft(24)((sum, row) => sum + 16 + row.bytes.length) + debts.foldLeft(0)((sum, row) => sum + 4 + row.length)

  def write(out: ByteBuffer): Unit = {
    out.putLong(arrivals).putLong(away).putInt(rows.size)
    rows.foreach(row => Accumulator.put(out.putLong(row.arrival).putInt(row.count), row.bytes))
    out.putInt(debts.size)
    debts.foreach(Accumulator.put(out, _))
  }

  def read(in: ByteBuffer): Unit = {
    clear()
    arrivals = in.getLong()
    away = in.getLong()
    for (_ <- 0 until in.getInt()) {
      val (arrival, count) = (in.getLong(), in.getInt())
      rows += new RankedRow(Accumulator.bytes(in), arrival, count, columns)
    }
    for (_ <- 0 until in.getInt()) debts += Accumulator.bytes(in)
  }
}

private[spark] object Ranking {
  private def entry(arrival: Long, count: Int): Array[Byte] = ByteBuffer.allocate(12).putLong(arrival).putInt(count).array()
}
