package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer

/** Rows of a partition that follow each other, shared out among the variables of a pattern in their order. Rows and
  * variables go by their places.
  *
  * @param start     the first row
  * @param variable  the one that has taken the last row
  * @param counts    how many rows each variable has
  */
private[spark] final class Run(val start: Int, val variable: Int, private val counts: Array[Int]) {
  import Run._

  /** Number of rows of a variable, or of [[Run.All]]. */
  def count(of: Int): Int = if (of == All) before(counts.length) else counts(of)

  /** The first row of a variable that has one, or the first one of all. */
  def first(of: Int): Int = if (of == All) start else start + before(of)

  /** The row after the last one. */
  def end: Int = start + before(counts.length)

  /** The run with another row, taken by `by`. */
  def longer(by: Int): Run = {
    val more = counts.clone()
    more(by) += 1
    new Run(start, by, more)
  }

  private def before(variable: Int): Int = {
    var (at, rows) = (0, 0)
    while (at < variable) {
      rows += counts(at)
      at += 1
    }
    rows
  }

  /** Write the run without the rows before `from`. */
  def write(out: ByteBuffer, from: Int): Unit = {
    out.putInt(start - from)
    counts.foreach(count => out.putInt(count))
  }
}

private[spark] object Run {

  /** Stands for all variables, where one is asked for. */
  val All: Int = -1

  /** A run that begins at `row` and has taken nothing. */
  def at(row: Int, variables: Int): Run = new Run(row, 0, new Array[Int](variables))

  def read(in: ByteBuffer, variables: Int): Run = {
    val start = in.getInt()
    val counts = Array.fill(variables)(in.getInt())
    new Run(start, counts.lastIndexWhere(_ > 0), counts)
  }

  def bytes(variables: Int): Int = 4 + 4 * variables
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

  /** The first or the last row of a variable; the next row if that would begin the same match again. */
  final case class ToVariable(variable: Int, last: Boolean) extends Skip {
    override def resume(matched: Run): Int = {
      val count = matched.count(variable)
      val row = if (count == 0) matched.start else matched.first(variable) + (if (last) count - 1 else 0)
      math.max(row, matched.start + 1)
    }
  }
}

/** A sequence of variables, and how a run goes through it. */
private[spark] final case class RowPattern(variables: Seq[PatternVariable], skip: Skip) {
  private val steps = variables.toArray
  private val lastNeeded = steps.lastIndexWhere(_.least > 0)

  /** True if everything that `run` lacks may be empty. */
  def isComplete(run: Run): Boolean = run.variable >= lastNeeded && run.count(run.variable) >= steps(run.variable).least

  /** Adds to `into` what becomes of `run` with its next row, the preferred first; `meets` tells of a run whether the
    * variable that took its last row may. A greedy variable leaves no row to the next one that it may take itself. Where
    * a reluctant one may take a row, both are tried.
    */
  def grow(run: Run, meets: Run => Boolean, into: ArrayBuffer[Run]): Unit = grow(run, run.variable, meets, into)

  private def grow(run: Run, at: Int, meets: Run => Boolean, into: ArrayBuffer[Run]): Unit = if (at < steps.length) {
    val (step, count) = (steps(at), run.count(at))
    val longer = if (step.most < 0 || count < step.most) run.longer(at) else null
    val takes = longer != null && meets(longer)
    if (count >= step.least && !(step.greedy && takes)) grow(run, at + 1, meets, into)
    if (takes) into += longer
  }
}

/** Open runs of a partition: those that may continue, and matches that wait for earlier runs, which could still take
  * their rows.
  *
  * @param meets  see [[RowPattern.grow]]
  */
private[spark] final class PatternRuns(pattern: RowPattern, meets: Run => Boolean) {
  // Both in the order of their starts. Of equal starts the preferred run comes first; a match ends all other runs of its start.
  private val alive = ArrayBuffer.empty[Run]
  private val waiting = ArrayBuffer.empty[Run]
  private val variables = pattern.variables.size

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
    if (matches.view.drop(before).forall(pattern.skip.resume(_) <= row)) {
      val begun = ArrayBuffer.empty[Run]
      pattern.grow(Run.at(row, variables), meets, begun)
      settle(begun)
      comeOut(matches)
    }
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
      // The runs of one start: the first that is complete is the match.
      var (end, complete) = (at, null: Run)
      while (end < runs.size && runs(end).start == runs(at).start) {
        if (complete == null && pattern.isComplete(runs(end))) complete = runs(end)
        end += 1
      }
      if (complete == null) alive ++= runs.view.slice(at, end) else wait(complete)
      at = end
    }
  }

  private def wait(complete: Run): Unit = {
    val later = waiting.indexWhere(_.start > complete.start)
    waiting.insert(if (later < 0) waiting.size else later, complete)
  }

  private def comeOut(matches: ArrayBuffer[Run]): Unit =
    while (waiting.nonEmpty && (pattern.skip == Skip.NextRow || alive.headOption.forall(_.start >= waiting.head.start))) {
      val matched = waiting.remove(0)
      matches += matched
      val resume = pattern.skip.resume(matched)
      def isClosed(run: Run): Boolean = run.start >= matched.start && run.start < resume
      alive.filterInPlace(!isClosed(_))
      waiting.filterInPlace(!isClosed(_))
    }

  def bytes: Int = 8 + (alive.size + waiting.size) * Run.bytes(variables)

  /** Rows before `from` are left out, and then those count from 0. */
  def write(out: ByteBuffer, from: Int): Unit = Seq(alive, waiting).foreach { runs =>
    out.putInt(runs.size)
    runs.foreach(_.write(out, from))
  }

  def read(in: ByteBuffer): Unit = Seq(alive, waiting).foreach { runs =>
    for (_ <- 0 until in.getInt()) runs += Run.read(in, variables)
  }
}
