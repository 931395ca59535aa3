package io.headrace.spark

import java.nio.ByteBuffer
import java.util.{List => JavaList}

import scala.collection.immutable.ArraySeq
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

/** A part of a pattern in the meaning of the SQL standard.
  *
  * @param kind      `row`: a row that `variable` takes; `excluded`: likewise, and ALL ROWS PER MATCH leaves it out; `sequence` of `parts`;
  *                  `alternation`: one of `parts`, the first preferred; `permutation`: all `parts` in any order, as an alternation
  *                  of all orders, that of the list first; `repetition` of the one part, `least` to `most` times
  * @param parts     their places in the list of parts, which are before this one's
  * @param most      -1: there is no bound
  * @param greedy    whether a repetition prefers one more to its end
  */
private[spark] final case class PatternPart(
    kind: String,
    variable: String,
    parts: JavaList[Integer],
    least: Int,
    most: Int,
    greedy: Boolean
)

/** An open part of a pattern, and what is open around it. Equal frames have the same future.
  *
  * @param part   its place
  * @param at     of a sequence, the next item; of a permutation, see there; of a repetition, the number of
  *               the current iteration
  * @param fresh  whether the iteration has taken no row
  * @param next   what is open around it; null for nothing
  */
private[spark] final class Frame(val part: Int, val at: Int, val fresh: Boolean, val next: Frame) {
  override val hashCode: Int = ((part * 31 + at) * 2 + (if (fresh) 1 else 0)) * 31 + (if (next == null) 0 else next.hashCode)
  val depth: Int = if (next == null) 1 else next.depth + 1
  private val isFresh: Boolean = fresh || (next != null && next.isFresh)

  override def equals(other: Any): Boolean = other match {
    case frame: Frame =>
      (this eq frame) || (hashCode == frame.hashCode && part == frame.part && at == frame.at && fresh == frame.fresh && next == frame.next)
    case _ => false
  }

  /** The frames after a row was taken. */
  def used: Frame = if (isFresh) new Frame(part, at, false, Frame.used(next)) else this
}

private[spark] object Frame {
  def used(frame: Frame): Frame = if (frame == null) null else frame.used
}

/** A pattern in the meaning of the SQL standard: of the ways to take rows from a start, the match is the preferred one.
  *
  * A run lives for each way. One that is complete waits for those that are preferred to it, and ends all others.
  *
  * @param parts   the last one is the whole
  * @param merges  whether conditions depend on nothing but the current row, those around it and those of the whole match: runs with
  *                the same future then have the same matches, and only the preferred one is kept
  */
private[spark] final class StandardPattern(parts: ArraySeq[StandardPart], merges: Boolean) extends RowPattern {
  import StandardPattern._

  /** Goes through what a run may take next, in the order of preference, up to the end of the pattern. */
  private final class Walk(offer: (StandardPart, Frame) => Unit) {
    // What was gone through has no other outcome when it is met again, and was preferred.
    private val entered = mutable.HashSet.empty[(Int, Frame)]
    private val resumed = mutable.HashSet.empty[Frame]
    private var steps = 0

    /** Goes on with what is open; true if the pattern may end, and then the rest is not gone through. */
    def resume(frame: Frame): Boolean = frame == null || (resumed.add(frame) && {
      val part = parts(frame.part)
      part.kind match {
        case Sequence    => follow(frame.part, frame.at, frame.next)
        case Permutation =>
          if (part.orders == null) choose(frame.part, frame.at, frame.next)
          else arrange(frame.part, frame.at / PermutedMax, frame.at % PermutedMax, frame.next)
        // An empty iteration is the last one: it would be repeated without end.
        case _ => if (frame.fresh) resume(frame.next) else repeat(frame.part, frame.at, frame.next)
      }
    })

    def enter(place: Int, next: Frame): Boolean = entered.add((place, next)) && {
      steps += 1
      if (steps > StepsMax) throw new IllegalStateException(s"$TooMany: $steps were open, expected $RunsMax at most")
      val part = parts(place)
      part.kind match {
        case Sequence    => follow(place, 0, next)
        case Permutation =>
          if (part.orders == null) choose(place, 0, next)
          else part.orders.indices.exists(arrange(place, _, 0, next))
        case Alternation => part.parts.exists(enter(_, next))
        case Repetition  => repeat(place, 0, next)
        case _ =>
          offer(part, next)
          false
      }
    }

    private def follow(place: Int, at: Int, next: Frame): Boolean = {
      val items = parts(place).parts
      enter(items(at), if (at + 1 < items.length) new Frame(place, at + 1, false, next) else next)
    }

    /** Goes on with an order of items, each of which may take rows in several ways: the order is preferred to the ways. */
    private def arrange(place: Int, order: Int, at: Int, next: Frame): Boolean = {
      val part = parts(place)
      val rest = if (at + 1 < part.parts.length) new Frame(place, order * PermutedMax + at + 1, false, next) else next
      enter(part.parts(part.orders(order)(at)), rest)
    }

    /** Goes on with an item that was not used; `taken` are those that were, as bits. Here each item takes its rows in one way, so that
      * it may be chosen when it is needed.
      */
    private def choose(place: Int, taken: Int, next: Frame): Boolean = {
      val items = parts(place).parts
      if (taken == (1 << items.length) - 1) resume(next)
      else
        items.indices.exists { at =>
          (taken & (1 << at)) == 0 && enter(items(at), new Frame(place, taken | (1 << at), false, next))
        }
    }

    private def repeat(place: Int, iterations: Int, next: Frame): Boolean = {
      val part = parts(place)
      // Without a bound, iterations beyond the least number need not be told apart.
      val more = if (part.most < 0) math.min(iterations + 1, part.least) else iterations + 1
      def again = (part.most < 0 || iterations < part.most) && enter(part.parts(0), new Frame(place, more, true, next))
      def on = iterations >= part.least && resume(next)
      if (part.greedy) again || on else on || again
    }
  }

  private def walk(run: Run)(offer: (StandardPart, Frame) => Unit): Boolean = {
    val walk = new Walk(offer)
    if (run.last == null) walk.enter(parts.length - 1, null) else walk.resume(run.rest)
  }

  override def grow(run: Run, meets: Run => Boolean, into: ArrayBuffer[Run]): Unit = walk(run) { (part, next) =>
    val longer = run.longer(part.variable, part.kind == Excluded, Frame.used(next))
    if (meets(longer)) into += longer
  }

  override def settle(runs: ArrayBuffer[Run]): (collection.Seq[Run], Run) = {
    val living = ArrayBuffer.empty[Run]
    val futures = mutable.HashSet.empty[Frame]
    var (at, complete) = (0, null: Run)
    while (at < runs.size && complete == null) {
      val run = runs(at)
      if (!merges || futures.add(run.rest)) {
        var continues = false
        if (walk(run)((_, _) => continues = true)) complete = run
        if (continues) living += run
      }
      at += 1
    }
    (living, complete)
  }

  override def check(runs: ArrayBuffer[Run]): Unit =
    if (runs.size > RunsMax || (runs.size > 1 && runs.iterator.map(_.last.depth.toLong).sum > StretchesMax))
      throw new IllegalStateException(s"$TooMany: ${runs.size} were open, expected $RunsMax at most")

  override def bytes(run: Run): Int = 12 + 9 * run.last.depth + (if (run.rest == null) 0 else 8 * run.rest.depth)

  override def write(run: Run, out: ByteBuffer, from: Int): Unit = {
    out.putInt(run.start - from).putInt(run.last.depth)
    run.last.inOrder.foreach { stretch =>
      out.putInt(stretch.variable).put((if (stretch.excluded) 1 else 0).toByte).putInt(stretch.count)
    }
    out.putInt(if (run.rest == null) 0 else run.rest.depth)
    var frame = run.rest
    while (frame != null) {
      out.putInt(frame.part).putInt(frame.at)
      frame = frame.next
    }
  }

  override def read(in: ByteBuffer): Run = {
    val start = in.getInt()
    var (last, row) = (null: Stretch, start)
    for (_ <- 0 until in.getInt()) {
      val (variable, excluded, count) = (in.getInt(), in.get() == 1, in.getInt())
      last = new Stretch(variable, excluded, row, count, last)
      row += count
    }
    // The outermost frame comes last.
    val frames = Array.fill(in.getInt())((in.getInt(), in.getInt()))
    new Run(start, last, frames.foldRight(null: Frame) { case ((part, at), next) => new Frame(part, at, false, next) })
  }
}

/** A [[PatternPart]] with places instead of names.
  *
  * @param orders  of the items of a permutation; null where they may be chosen one by one
  */
private[spark] final case class StandardPart(
    kind: String,
    variable: Int,
    parts: Array[Int],
    least: Int,
    most: Int,
    greedy: Boolean,
    orders: Array[Array[Int]]
)

private[spark] object StandardPattern {
  private final val Row = "row"
  private final val Excluded = "excluded"
  private final val Sequence = "sequence"
  private final val Alternation = "alternation"
  private final val Permutation = "permutation"
  private final val Repetition = "repetition"

  /** Limits of a partition's open runs. The second one is of what they keep: about 40 MB. */
  val RunsMax: Int = 10000
  private val StretchesMax = 4000000L

  /** The driver classifies the failure by this text. */
  val TooMany: String = "MATCH_RECOGNIZE has too many partial matches in one partition"

  // What may follow one run. Permutations in permutations multiply.
  private val StepsMax = 4 * RunsMax

  private val PermutedMax = 8
  private val ArrangedMax = 5

  /** Throws IllegalArgumentException for parts that do not fit together, and for a pattern that may take no row. */
  def apply(parts: Seq[PatternPart], variables: Seq[String], merges: Boolean): StandardPattern = {
    // Of each part, whether it takes its rows in one way, and whether it may take none.
    val (plain, optional) = (new Array[Boolean](parts.size), new Array[Boolean](parts.size))
    val resolved = parts.zipWithIndex.map { case (part, place) =>
      val items = part.parts.asScala.map(_.intValue).toArray
      def expect(fits: Boolean, what: String): Unit = require(fits, s"expected $what, found $part")
      expect(items.forall(item => item >= 0 && item < place), "parts that come before")
      val isPlain = items.forall(plain(_))
      part.kind match {
        case Row | Excluded         => expect(variables.contains(part.variable) && items.isEmpty, "a variable of the pattern")
        case Sequence | Alternation => expect(items.nonEmpty, "at least one part")
        case Permutation =>
          val most = if (isPlain) PermutedMax else ArrangedMax
          expect(items.nonEmpty && items.length <= most, s"1 to $most parts")
        case Repetition =>
          val fits = part.least >= 0 && (part.most == -1 || part.most >= math.max(part.least, 1))
          expect(items.length == 1 && fits, "a part and a range of repetitions with 0 <= least <= most and most >= 1")
        case _ => expect(false, "row, excluded, sequence, alternation, permutation or repetition")
      }
      plain(place) = part.kind == Row || part.kind == Excluded || (part.kind == Sequence && isPlain)
      optional(place) =
        if (part.kind == Alternation) items.exists(optional(_))
        else if (part.kind == Repetition) part.least == 0 || optional(items(0))
        else items.nonEmpty && items.forall(optional(_))
      val orders = if (part.kind == Permutation && !isPlain) items.indices.permutations.map(_.toArray).toArray else null
      StandardPart(part.kind, variables.indexOf(part.variable), items, part.least, part.most, part.greedy, orders)
    }
    require(!optional.last, s"expected a pattern that takes a row, found one of ${variables.mkString(" ")}, which may be empty")
    new StandardPattern(resolved.to(ArraySeq), merges)
  }
}
