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

/** A function that numbers rows; with ties, rows that are equal in order have the same one. */
private[spark] sealed abstract class RankFunction(val name: String, val hasTies: Boolean) extends Serializable
private[spark] case object RowNumber extends RankFunction("row_number", hasTies = false)
private[spark] case object Rank extends RankFunction("rank", hasTies = true)
private[spark] case object DenseRank extends RankFunction("dense_rank", hasTies = true)

private[spark] object RankFunction {

  /** Throws IllegalArgumentException for an unknown name. */
  def named(name: String): RankFunction = Seq(RowNumber, Rank, DenseRank).find(_.name == name).getOrElse(
    throw new IllegalArgumentException(s"expected row_number, rank or dense_rank, found $name")
  )
}

/** A row and its rank, from 1. */
private[spark] final case class PlacedRow(rank: Long, bytes: Array[Byte])

/** The rows of one partition in order. The first few are at hand, in the partition's one value of state; the others are
  * kept beside it, and are looked through only when too few are left at hand. Of rows that are equal in order, the one
  * that came first goes first, or with `newestFirst` the one that came last.
  *
  * @param function  how rows are numbered
  * @param order     by which rows are compared
  * @param columns   how many a row has
  * @param needed    the last rank whose rows must be known
  * @param rest      the rows that are not at hand: bytes -> arrival, count; null when rows are never taken away, and all
  *                  with a rank above `needed` are forgotten
  */
private[spark] final class Ranking(
    function: RankFunction,
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
  private var trimAt = atHand
  private var places = 0L // of rows at hand that differ in order, at least up to `needed`; known for DENSE_RANK

  def clear(): Unit = {
    rows.clear()
    debts.clear()
    away = 0
    arrivals = 0
    changed = false
    trimAt = atHand
    places = 0
  }

  def isBlank: Boolean = rows.isEmpty && debts.isEmpty && away == 0

  /** True if it was changed since it was read. */
  def isChanged: Boolean = changed

  /** The rows with a rank up to `needed`, in order. */
  def first: Array[PlacedRow] = {
    refill()
    val out = ArrayBuffer.empty[PlacedRow]
    ranked { (row, rank) =>
      for (n <- 0 until row.count) {
        val place = if (function.hasTies) rank else rank + n
        if (place <= needed) out += PlacedRow(place, row.bytes)
      }
    }
    out.toArray
  }

  /** Visits the entries at hand whose rank is at most `needed`, with the rank; returns how many there are, and the rank of a row after all
    * that are at hand.
    */
  private def ranked(visit: (RankedRow, Long) => Unit = (_, _) => ()): (Int, Long) = {
    var (at, rank, preceding, places) = (0, 1L, 0L, 0L)
    while (at < rows.size) {
      if (!function.hasTies || at == 0 || order.compare(rows(at - 1).row, rows(at).row) != 0) {
        places += 1
        rank = if (function == DenseRank) places else preceding + 1
      }
      if (rank > needed) return (at, rank)
      visit(rows(at), rank)
      preceding += rows(at).count
      at += 1
    }
    (at, (if (function == DenseRank) places else preceding) + 1)
  }

  /** True if no row that is away can have a rank up to `needed`: it follows the last one at hand, or is equal to it in order. */
  private def isComplete: Boolean = away == 0 || {
    val (count, next) = ranked()
    if (function.hasTies) count < rows.size else next > needed
  }

  def add(bytes: Array[Byte]): Unit = {
    val owed = if (debts.isEmpty) -1 else debts.indexWhere(Arrays.equals(_, bytes))
    if (owed >= 0) {
      debts.remove(owed)
      changed = true
    } else {
      probe.pointTo(bytes, bytes.length)
      val compared = if (rows.isEmpty) 1 else order.compare(probe, rows.last.row)
      if (compared < 0 || (compared == 0 && newestFirst) || hasRoom(compared)) {
        insert(new RankedRow(bytes, arrivals, 1, columns))
        changed = true
      } else if (rest != null) putAway(bytes, arrivals, 1)
      arrivals += 1
    }
  }

  /** True if a row that does not precede the last one at hand joins those at hand; `compared` with the last one. */
  private def hasRoom(compared: Int): Boolean =
    if (rest == null && function.hasTies) compared == 0 || (if (function == DenseRank) places else rows.size) < needed
    else away == 0 && rows.size < atHand

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
    val at = position(rows, row)
    rows.insert(at, row)
    if (function == DenseRank && !isTie(at - 1, row) && !isTie(at + 1, row)) places += 1
    if (rows.size > trimAt) trim()
  }

  private def isTie(at: Int, row: RankedRow): Boolean = rows.indices.contains(at) && order.compare(rows(at).row, row.row) == 0

  /** The place of a row among others in order. */
  private def position(among: ArrayBuffer[RankedRow], row: RankedRow): Int = {
    var (at, end) = (0, among.size)
    while (at < end) {
      val middle = (at + end) >>> 1
      if (follows(among(middle), row)) end = middle else at = middle + 1
    }
    at
  }

  /** Puts away, or forgets, the last rows at hand, of which there are enough. With ties it is called seldom: it visits all. */
  private def trim(): Unit = {
    val kept = if (!function.hasTies) atHand else if (rest == null) ranked()._1 else math.max(atHand, ranked()._1 + 1)
    while (rows.size > kept) {
      val last = rows.remove(rows.size - 1)
      if (rest != null) putAway(last.bytes, last.arrival, last.count)
    }
    if (function.hasTies) trimAt = math.max(atHand, 2 * rows.size)
    places = math.min(places, needed)
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

  /** Takes the best of the rows that are away, when too few are at hand. */
  private def refill(): Unit = while (!isComplete) {
    val top = ArrayBuffer.empty[RankedRow]
    val room = if (function.hasTies) math.max(atHand, rows.size) else atHand - rows.size
    rest.iterator().foreach { case (bytes, entry) =>
      val kept = ByteBuffer.wrap(entry)
      val row = new RankedRow(bytes, kept.getLong(), kept.getInt(), columns)
      if (top.size < room || follows(top.last, row)) {
        top.insert(position(top, row), row)
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
    if (function == DenseRank) places = ranked()._2 - 1
  }
}

private[spark] object Ranking {
  private def entry(arrival: Long, count: Int): Array[Byte] = ByteBuffer.allocate(12).putLong(arrival).putInt(count).array()
}
