package io.headrace.spark

import java.util.Locale

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/** Rows of a side that are emitted without a row of the other side. */
private[spark] sealed trait Alone { def shows(matches: Long): Boolean }

private[spark] object Alone {
  case object Never extends Alone { def shows(matches: Long): Boolean = false }
  case object Unmatched extends Alone { def shows(matches: Long): Boolean = matches <= 0 }
  case object Matched extends Alone { def shows(matches: Long): Boolean = matches > 0 }
}

/** Output of a join: pairs or not, and rows of each side alone. */
private[spark] final case class JoinKind(pairs: Boolean, left: Alone, right: Alone)

private[spark] object JoinKind {
  import Alone._

  def parse(how: String): JoinKind = how.toLowerCase(Locale.ROOT) match {
    case "inner" => JoinKind(pairs = true, Never, Never)
    case "left"  => JoinKind(pairs = true, Unmatched, Never)
    case "right" => JoinKind(pairs = true, Never, Unmatched)
    case "full"  => JoinKind(pairs = true, Unmatched, Unmatched)
    case "semi"  => JoinKind(pairs = false, Matched, Never)
    case "anti"  => JoinKind(pairs = false, Unmatched, Never)
    case other   => throw new IllegalArgumentException(s"expected inner, left, right, full, semi or anti, found $other")
  }
}

/** Microseconds between the closing of the left and of the right row of a pair, at least and at most. */
private[spark] final case class Apart(least: Long, most: Long)

/** Change of a side's row: it is there `weight` times more. */
private[spark] final class Change(val payload: Array[Byte], var weight: Int, val closesMicros: Long) {
  var matches: Int = 0
}

private[spark] object Change {

  /** The equivalent changes without those that cancel each other. */
  def net(changes: ArrayBuffer[Change]): ArrayBuffer[Change] =
    if (changes.size < 2) changes
    else {
      val rows = mutable.LinkedHashMap.empty[(PackedKey, Long), Change]
      changes.foreach { change =>
        val same = rows.getOrElseUpdate((new PackedKey(change.payload), change.closesMicros), change)
        if (same ne change) same.weight += change.weight
      }
      rows.valuesIterator.filter(_.weight != 0).to(ArrayBuffer)
    }
}

/** The join of two multisets of rows, followed through their changes: each change gives the difference between the join
  * before and after it. Since differences add up, the order of changes and how they are cut do not matter, and counts
  * below zero in between cancel out.
  *
  * With closing times a row alone that is unmatched comes out when it closes and not before, and a row that closes
  * takes nothing back.
  *
  * @param meets   whether a left and a right row of one key belong together; null: always
  * @param closes  whether the left, and the right, rows have closing times
  * @param apart   how far those of a pair may be from each other; null: any
  */
private[spark] final class SignedJoin(
    kind: JoinKind,
    meets: (Array[Byte], Array[Byte]) => Boolean,
    closes: (Boolean, Boolean),
    apart: Apart = null
) {
  import SignedJoin._

  private val (leftCloses, rightCloses) = closes
  private val timed = leftCloses || rightCloses
  private val left = Side(isLeft = true, kind.left, isCounted(kind.left), kind.left == Alone.Unmatched && leftCloses)
  private val right = Side(isLeft = false, kind.right, isCounted(kind.right), kind.right == Alone.Unmatched && rightCloses)

  val leftLayout: RowLayout = RowLayout(left.counted, leftCloses)
  val rightLayout: RowLayout = RowLayout(right.counted, rightCloses)

  /** True if a key must be looked at as soon as its first row closes, and not just some time after its last. */
  val showsClosing: Boolean = left.deferred || right.deferred

  /** Makes the changes of both sides.
    *
    * @param closedMicros  rows that close by then meet nobody any more
    * @param emit      takes a left row, a right row (one of them null for a row alone) and how many times more it is there
    */
  def change(
      leftChanges: ArrayBuffer[Change],
      rightChanges: ArrayBuffer[Change],
      leftRows: JoinRows,
      rightRows: JoinRows,
      closedMicros: Long
  )(emit: Emit): Unit = {
    change(right, Change.net(rightChanges), rightRows, left, leftRows, closedMicros, emit)
    change(left, Change.net(leftChanges), leftRows, right, rightRows, closedMicros, emit)
  }

  /** Lets the rows go that close by `watermarkMicros`. */
  def close(leftRows: JoinRows, rightRows: JoinRows, watermarkMicros: Long)(emit: Emit): Unit = {
    if (leftCloses) leftRows.close(watermarkMicros)(closed(left, _, emit))
    if (rightCloses) rightRows.close(watermarkMicros)(closed(right, _, emit))
  }

  /** Emits what comes out of the rows as they are. */
  def shown(leftRows: JoinRows, rightRows: JoinRows)(emit: Emit): Unit = {
    val others = present(rightRows)
    if (kind.pairs)
      for (row <- present(leftRows); other <- others if meets == null || meets(row.payload, other.payload))
        emit(row.payload, other.payload, row.weight * other.weight)
    aloneIn(left, present(leftRows), rightRows, emit)
    aloneIn(right, others, leftRows, emit)
  }

  private def aloneIn(side: Side, rows: ArrayBuffer[JoinRow], others: JoinRows, emit: Emit): Unit =
    for (row <- rows if side.alone.shows(if (side.counted) row.matches else others.total))
      side.emitAlone(row.payload, row.weight, emit)

  /** A row that belongs to no key. */
  def unmatchable(isLeft: Boolean, payload: Array[Byte], weight: Int)(emit: Emit): Unit = {
    val side = if (isLeft) left else right
    if (side.alone.shows(0)) side.emitAlone(payload, weight, emit)
  }

  private def change(
      side: Side,
      changes: ArrayBuffer[Change],
      rows: JoinRows,
      other: Side,
      others: JoinRows,
      closedMicros: Long,
      emit: Emit
  ): Unit = if (changes.nonEmpty) {
    val total = rows.total + changes.iterator.map(_.weight.toLong).sum
    val flips = !other.counted && other.alone.shows(rows.total) != other.alone.shows(total)
    if (kind.pairs || side.counted || other.counted || flips)
      others.foreach { row =>
        row.closesMicros > closedMicros && {
          val heard = if (kind.pairs || side.counted || other.counted) meet(side, changes, row, emit) else 0
          if (flips) other.emitAlone(row.payload, if (other.alone.shows(total)) row.weight else -row.weight, emit)
          other.counted && heard != 0 && {
            val showed = other.alone.shows(row.matches)
            row.matches += heard
            val shows = other.alone.shows(row.matches)
            if (!other.deferred && showed != shows)
              other.emitAlone(row.payload, if (shows) row.weight else -row.weight, emit)
            true
          }
        }
      }
    changes.foreach { change =>
      val matches = if (side.counted) change.matches.toLong else others.total
      if (!side.deferred && side.alone.shows(matches)) side.emitAlone(change.payload, change.weight, emit)
      rows.add(change.payload, change.weight, change.matches, change.closesMicros)
    }
  }

  /** Number of further rows that `row` has met by the changes of `side`. */
  private def meet(side: Side, changes: ArrayBuffer[Change], row: JoinRow, emit: Emit): Int = {
    var heard = 0
    var at = 0
    while (at < changes.size) {
      val change = changes(at)
      val (left, right) = if (side.isLeft) (change.payload, row.payload) else (row.payload, change.payload)
      val later = if (side.isLeft) row.closesMicros - change.closesMicros else change.closesMicros - row.closesMicros
      if ((apart == null || apart.least <= later && later <= apart.most) && (meets == null || meets(left, right))) {
        if (kind.pairs) emit(left, right, change.weight * row.weight)
        change.matches += row.weight
        heard += change.weight
      }
      at += 1
    }
    heard
  }

  private def closed(side: Side, row: JoinRow, emit: Emit): Unit =
    if (side.deferred && side.alone.shows(row.matches)) side.emitAlone(row.payload, row.weight, emit)

  /** True without condition and closing times: all rows of a key have met all of the other side's, so that their
    * number suffices.
    */
  private def isCounted(alone: Alone): Boolean = alone != Alone.Never && (meets != null || timed)
}

private[spark] object SignedJoin {

  private def present(rows: JoinRows): ArrayBuffer[JoinRow] = {
    val there = ArrayBuffer.empty[JoinRow]
    rows.foreach { row =>
      if (row.weight > 0) there += row
      false
    }
    there
  }

  type Emit = (Array[Byte], Array[Byte], Int) => Unit

  /** @param deferred  whether its rows come out alone only when they close */
  private final case class Side(isLeft: Boolean, alone: Alone, counted: Boolean, deferred: Boolean) {
    def emitAlone(payload: Array[Byte], weight: Int, emit: Emit): Unit =
      if (isLeft) emit(payload, null, weight) else emit(null, payload, weight)
  }
}
