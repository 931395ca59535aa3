package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.immutable.BitSet
import scala.collection.mutable.ArrayBuffer

/** Rows of one variable that follow each other in a run. Lists of these share their beginnings.
  *
  * @param excluded  whether ALL ROWS PER MATCH leaves them out
  * @param first     the first row
  * @param before    what the run has taken before; null for nothing
  */
private[spark] final class Stretch(val variable: Int, val excluded: Boolean, val first: Int, val count: Int, val before: Stretch) {
  val depth: Int = if (before == null) 1 else before.depth + 1

  def end: Int = first + count

  /** The stretches from the first one on. */
  def inOrder: List[Stretch] = {
    var (stretches, at) = (List.empty[Stretch], this)
    while (at != null) {
      stretches = at :: stretches
      at = at.before
    }
    stretches
  }
}

/** Rows of a partition that follow each other, each taken by a variable of a pattern. Rows and variables go by their places.
  *
  * @param start  the first row
  * @param last   the last rows; null for a run that has taken nothing
  * @param rest   what a [[StandardPattern]] has open; null for nothing
  */
private[spark] final class Run(val start: Int, val last: Stretch, val rest: Frame = null) {

  /** The variable that has taken the last row. */
  def variable: Int = last.variable

  /** The row after the last one. */
  def end: Int = if (last == null) start else last.end

  /** The run with another row, taken by `by`. */
  def longer(by: Int, excluded: Boolean = false, rest: Frame = null): Run = {
    val continues = last != null && last.variable == by && last.excluded == excluded
    val stretch =
      if (continues) new Stretch(by, excluded, last.first, last.count + 1, last.before)
      else new Stretch(by, excluded, end, 1, last)
    new Run(start, stretch, rest)
  }

  /** Number of rows of some variables, or of [[Run.All]]. */
  def count(of: BitSet): Int = if (of == Run.All) end - start else {
    var (rows, at) = (0, last)
    while (at != null) {
      if (of(at.variable)) rows += at.count
      at = at.before
    }
    rows
  }

  /** The row of these variables that is `offset` before their last one; -1 if there is none. */
  def fromEnd(of: BitSet, offset: Int): Int =
    if (of == Run.All) (if (offset < end - start) end - 1 - offset else -1)
    else {
      var (left, at) = (offset, last)
      while (at != null) {
        if (of(at.variable)) {
          if (left < at.count) return at.end - 1 - left
          left -= at.count
        }
        at = at.before
      }
      -1
    }

  /** The row of these variables that is `offset` after their first one; -1 if there is none. */
  def fromStart(of: BitSet, offset: Int): Int = {
    val rows = count(of)
    if (offset < rows) fromEnd(of, rows - 1 - offset) else -1
  }

  /** The rows of these variables in order. */
  def rows(of: BitSet): Array[Int] = {
    val all = new Array[Int](count(of))
    var (to, at) = (all.length, last)
    while (at != null) {
      if (of == Run.All || of(at.variable)) {
        to -= at.count
        var row = 0
        while (row < at.count) {
          all(to + row) = at.first + row
          row += 1
        }
      }
      at = at.before
    }
    all
  }

  /** The variable that has taken `row`; -1 for a row that is not of the run. */
  def variableOf(row: Int): Int = {
    var at = last
    while (at != null && row < at.first) at = at.before
    if (at != null && row < at.end) at.variable else -1
  }

  /** The run as it was after each of its rows, without what was open. */
  def prefixes: Iterator[Run] = last.inOrder.iterator.flatMap { stretch =>
    Iterator.range(1, stretch.count + 1).map { count =>
      new Run(start, new Stretch(stretch.variable, stretch.excluded, stretch.first, count, stretch.before))
    }
  }
}

private[spark] object Run {

  /** Stands for all variables, where some are asked for. */
  val All: BitSet = null

  /** A run that begins at `row` and has taken nothing. */
  def at(row: Int): Run = new Run(row, null)
}

/** Position at which the next match may begin. */
private[spark] sealed trait Skip {

  /** The first row that another match may begin with. */
  def resume(matched: Run): Int
}

private[spark] object Skip {
  case object NextRow extends Skip {
    override def resume(matched: Run): Int = matched.start + 1
  }

  case object PastLastRow extends Skip {
    override def resume(matched: Run): Int = matched.end
  }

  /** The first or the last row of some variables; the next row if they have none, or that would begin the same match again. */
  final case class ToVariable(variables: BitSet, last: Boolean) extends Skip {
    override def resume(matched: Run): Int =
      math.max(if (last) matched.fromEnd(variables, 0) else matched.fromStart(variables, 0), matched.start + 1)
  }
}

/** Steps of a run through a pattern. */
private[spark] trait RowPattern extends Serializable {

  /** Adds to `into` what becomes of `run` with its next row, the preferred first; `meets` tells of a run whether the
    * variable that took its last row may.
    */
  def grow(run: Run, meets: Run => Boolean, into: ArrayBuffer[Run]): Unit

  /** Returns which of `runs` live on, and which is a match that no other one of them but these can replace; null for none.
    *
    * @param runs  of one start, which have taken the same rows, the preferred first
    */
  def settle(runs: ArrayBuffer[Run]): (collection.Seq[Run], Run)

  /** Throws IllegalStateException if `runs` are more than one partition may have. */
  def check(runs: ArrayBuffer[Run]): Unit

  /** Length of what `write` writes. */
  def bytes(run: Run): Int

  /** Write the run without the rows before `from`. */
  def write(run: Run, out: ByteBuffer, from: Int): Unit

  def read(in: ByteBuffer): Run
}

/** A sequence of variables, each once, in Flink's meaning: a variable never gives a row back, and the match is complete with the
  * first row after which the rest of the pattern may be empty.
  */
private[spark] final case class SequencePattern(variables: Seq[PatternVariable]) extends RowPattern {
  private val steps = variables.toArray
  private val lastNeeded = steps.lastIndexWhere(_.least > 0)

  /** A greedy variable leaves no row to the next one that it may take itself. Where a reluctant one may take a row, both are tried. */
  override def grow(run: Run, meets: Run => Boolean, into: ArrayBuffer[Run]): Unit =
    if (run.last == null) grow(run, 0, 0, meets, into) else grow(run, run.variable, run.last.count, meets, into)

  private def grow(run: Run, at: Int, count: Int, meets: Run => Boolean, into: ArrayBuffer[Run]): Unit = if (at < steps.length) {
    val step = steps(at)
    val longer = if (step.most < 0 || count < step.most) run.longer(at) else null
    val takes = longer != null && meets(longer)
    if (count >= step.least && !(step.greedy && takes)) grow(run, at + 1, 0, meets, into)
    if (takes) into += longer
  }

  override def settle(runs: ArrayBuffer[Run]): (collection.Seq[Run], Run) =
    runs.find(run => run.variable >= lastNeeded && run.last.count >= steps(run.variable).least) match {
      case Some(complete) => (Nil, complete)
      case None           => (runs, null)
    }

  override def check(runs: ArrayBuffer[Run]): Unit = ()

  override def bytes(run: Run): Int = 4 + 4 * steps.length

  override def write(run: Run, out: ByteBuffer, from: Int): Unit = {
    val counts = new Array[Int](steps.length)
    run.last.inOrder.foreach(stretch => counts(stretch.variable) = stretch.count)
    out.putInt(run.start - from)
    counts.foreach(count => out.putInt(count))
  }

  override def read(in: ByteBuffer): Run = {
    val start = in.getInt()
    var (last, row) = (null: Stretch, start)
    steps.indices.foreach { variable =>
      val count = in.getInt()
      if (count > 0) last = new Stretch(variable, false, row, count, last)
      row += count
    }
    new Run(start, last)
  }
}

/** Open runs of a partition: those that may continue, and matches that wait for earlier or preferred runs, which could still take
  * their rows.
  *
  * @param meets  see [[RowPattern.grow]]
  */
private[spark] final class PatternRuns(pattern: RowPattern, skip: Skip, meets: Run => Boolean) {
  // Both in the order of their starts. Of equal starts the preferred run comes first, and all are preferred to the waiting match.
  private val alive = ArrayBuffer.empty[Run]
  private val waiting = ArrayBuffer.empty[Run]

  /** True if nothing is open. */
  def isEmpty: Boolean = alive.isEmpty && waiting.isEmpty

  /** The first row of the run that began first; None when none is alive. */
  def oldest: Option[Int] = alive.headOption.map(_.start)

  /** The first row that is part of anything; `none` when there is nothing. */
  def from(none: Int): Int = math.min(alive.headOption.fold(none)(_.start), waiting.headOption.fold(none)(_.start))

  /** Takes the next row, which is at `row`; adds to `matches` the matches that come out. */
  def next(row: Int, matches: ArrayBuffer[Run]): Unit = {
    val before = matches.size
    val grown = ArrayBuffer.empty[Run]
    alive.foreach(pattern.grow(_, meets, grown))
    alive.clear()
    settle(grown)
    comeOut(matches)
    // A row may be closed to new runs by the matches that it is the last one of.
    if (matches.view.drop(before).forall(skip.resume(_) <= row)) {
      val begun = ArrayBuffer.empty[Run]
      pattern.grow(Run.at(row), meets, begun)
      settle(begun)
      comeOut(matches)
    }
    pattern.check(alive)
  }

  /** Ends runs without a match; adds to `matches` the matches that waited for them. */
  def end(isOver: Run => Boolean, matches: ArrayBuffer[Run]): Unit = if (alive.exists(isOver)) {
    alive.filterInPlace(!isOver(_))
    comeOut(matches)
  }

  /** Parts `runs`, which began later than all that are alive, into those that live on and those that are complete. */
  private def settle(runs: ArrayBuffer[Run]): Unit = {
    var at = 0
    while (at < runs.size) {
      var end = at
      while (end < runs.size && runs(end).start == runs(at).start) end += 1
      val (living, complete) = pattern.settle(runs.slice(at, end))
      alive ++= living
      if (complete != null) wait(complete)
      at = end
    }
  }

  private def wait(complete: Run): Unit = {
    val at = waiting.indexWhere(_.start >= complete.start)
    if (at < 0) waiting += complete
    else if (waiting(at).start == complete.start) waiting(at) = complete
    else waiting.insert(at, complete)
  }

  /** Place of the next match that no open run can change any more; -1 for none. */
  private def decided: Int =
    if (skip == Skip.NextRow) waiting.indexWhere(matched => !alive.exists(_.start == matched.start))
    else if (waiting.nonEmpty && alive.headOption.forall(_.start > waiting.head.start)) 0
    else -1

  private def comeOut(matches: ArrayBuffer[Run]): Unit = {
    var at = decided
    while (at >= 0) {
      val matched = waiting.remove(at)
      matches += matched
      val resume = skip.resume(matched)
      def isClosed(run: Run): Boolean = run.start >= matched.start && run.start < resume
      alive.filterInPlace(!isClosed(_))
      waiting.filterInPlace(!isClosed(_))
      at = decided
    }
  }

  def bytes: Int = 8 + (alive.iterator ++ waiting.iterator).map(pattern.bytes).sum

  /** Rows before `from` are left out, and then those count from 0. */
  def write(out: ByteBuffer, from: Int): Unit = Seq(alive, waiting).foreach { runs =>
    out.putInt(runs.size)
    runs.foreach(pattern.write(_, out, from))
  }

  def read(in: ByteBuffer): Unit = Seq(alive, waiting).foreach { runs =>
    for (_ <- 0 until in.getInt()) runs += pattern.read(in)
  }
}
