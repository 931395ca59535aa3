package io.headrace.spark

import java.nio.ByteBuffer
import java.util.{Arrays, Collections}

import scala.collection.immutable.BitSet
import scala.collection.mutable.ArrayBuffer
import scala.util.Random
import scala.util.control.NoStackTrace

class StandardPatternSuite extends PatientSuite {
  import StandardPatternSuite._

  test("runs find the preferred matches, for any pattern, condition and skip, put away and read again") {
    var (compared, found, long) = (0, 0, 0)
    for (seed <- 1 to 4000) {
      val shape = Shape.of(new Random(seed))
      val random = new Random(-seed)
      val rows = IndexedSeq.fill(1 + random.nextInt(9))(random.nextInt(5))
      shape.matches(rows).foreach { expected =>
        assertEquals(shape.found(rows, random), expected, s"seed $seed: ${rows.mkString(" ")} in $shape")
        compared += 1
        found += expected.size
        long += expected.count(_._2.size > 2)
      }
    }
    assert(compared > 3500 && found > 4000 && long > 700, s"$compared, $found, $long")
  }

  private def pattern(merges: Boolean, variables: Seq[String])(parts: PatternPart*): StandardPattern =
    StandardPattern(parts, variables, merges)

  /** (a | b)+ c */
  private def ambiguous(merges: Boolean) = pattern(merges, Seq("a", "b", "c"))(
    row("a"), row("b"), part("alternation", 0, 1), part("repetition", 2), row("c"), part("sequence", 3, 4))

  test("runs with the same future are one where conditions allow it, and limited where they do not") {
    def open(merges: Boolean): PatternRuns = {
      val runs = new PatternRuns(ambiguous(merges), Skip.PastLastRow, _.variable < 2)
      for (row <- 0 until 200) runs.next(row, ArrayBuffer.empty)
      runs
    }
    assertEquals(open(merges = true).from(none = -1), -1)
    val error = intercept[IllegalStateException](open(merges = false))
    assert(error.getMessage.matches(s"${StandardPattern.TooMany}: \\d+ were open, expected 10000 at most"), error.getMessage)
  }

  test("a hostile pattern takes no time beyond its size") {
    // Forty optional alternatives, each in twenty loops: 20^40 ways to take nothing.
    val parts = ArrayBuffer(row("a"), row("b"))
    val items = (0 until 40).map { _ =>
      parts += part("alternation", 0, 1).copy(least = 0)
      for (_ <- 0 until 20) parts += PatternPart("repetition", null, places(parts.size - 1), 0, -1, greedy = true)
      parts.size - 1
    }
    parts += row("c")
    parts += part("sequence", items :+ (parts.size - 1): _*)
    val runs = new PatternRuns(pattern(merges = true, Seq("a", "b", "c"))(parts.toSeq: _*), Skip.NextRow, _.variable < 2)
    for (row <- 0 until 6) runs.next(row, ArrayBuffer.empty)
    assert(!runs.isEmpty)
    // 2^40 orders: an item of three is another permutation, which is the first one in two orders.
    val nested = ArrayBuffer(row("a"), row("b"), PatternPart("repetition", null, places(0), 1, 2, greedy = true))
    for (_ <- 0 until 40) nested += part("permutation", nested.size - 1, 0, 1)
    val permuted = new PatternRuns(pattern(merges = true, Seq("a", "b"))(nested.toSeq: _*), Skip.NextRow, _ => true)
    assert(intercept[IllegalStateException](permuted.next(0, ArrayBuffer.empty)).getMessage.startsWith(StandardPattern.TooMany))
  }

  test("parts that do not fit are refused by name") {
    def refused(parts: PatternPart*): String =
      intercept[IllegalArgumentException](pattern(merges = true, Seq("a"))(parts: _*)).getMessage
    assert(refused(row("b")).contains("expected a variable of the pattern"))
    assert(refused(part("sequence", 0)).contains("expected parts that come before"))
    assert(refused(row("a"), part("repetition", 0).copy(least = 2, most = 1)).contains("0 <= least <= most"))
    assert(refused(row("a"), part("choice", 0)).contains("alternation"))
    assert(refused(row("a"), part("permutation", Seq.fill(9)(0): _*)).contains("1 to 8 parts"))
    assert(refused(row("a"), part("repetition", 0), part("permutation", 0, 1, 0, 0, 0, 0)).contains("1 to 5 parts"))
    assert(refused(row("a"), part("repetition", 0).copy(least = 0)).contains("may be empty"))
  }
}

private object StandardPatternSuite {
  private val Names = Seq("a", "b", "c")

  private def places(all: Int*) = Arrays.asList(all.map(Int.box): _*)
  private def row(variable: String) = PatternPart("row", variable, Collections.emptyList(), 1, 1, greedy = true)
  private def part(kind: String, parts: Int*) = PatternPart(kind, null, places(parts: _*), 1, if (kind == "repetition") -1 else 1, greedy = true)

  private type Taken = Vector[Int]

  // Backtracking is exponential for some patterns.
  private val StepsMax = 50000
  private object TooLong extends RuntimeException with NoStackTrace

  /** A pattern, its conditions (of the rows, the start, and the variables of the rows that were taken), and where the search goes on.
    *
    * @param local  whether conditions read nothing but the last rows
    */
  private final case class Shape(parts: Seq[PatternPart], conditions: Seq[Int], local: Boolean, skip: Skip, within: Int) {

    private def holds(rows: IndexedSeq[Int], start: Int, taken: Taken): Boolean = {
      val at = start + taken.size - 1
      conditions(taken.last) match {
        case 0              => true
        case 1              => at > 0 && rows(at) > rows(at - 1)
        case 9              => taken.count(_ == taken.last) <= 2
        case 10             => taken.indices.filter(taken(_) == 0).map(place => rows(start + place)).sum < 5
        case 11             => taken.indexOf(0) < 0 || rows(start + taken.indexOf(0)) <= rows(at)
        case atLeast if atLeast % 2 == 0 => rows(at) >= atLeast / 2
        case atMost         => rows(at) <= atMost / 2
      }
    }

    private var steps = 0

    /** The ways in which a part takes rows after `taken`, the preferred first. */
    private def ways(place: Int, rows: IndexedSeq[Int], start: Int, taken: Taken): Iterator[Taken] = {
      steps += 1
      if (steps > StepsMax) throw TooLong
      val PatternPart(kind, variable, items, least, most, greedy) = parts(place)
      def each(item: Int, taken: Taken) = ways(items.get(item), rows, start, taken)
      kind match {
        case "row" | "excluded" =>
          val more = taken :+ Names.indexOf(variable)
          Iterator(more).filter(_ => start + more.size <= math.min(rows.size, start + within) && holds(rows, start, more))
        case "sequence"    => (0 until items.size).foldLeft(Iterator(taken))((all, item) => all.flatMap(each(item, _)))
        case "alternation" => (0 until items.size).iterator.flatMap(each(_, taken))
        case "permutation" =>
          (0 until items.size).permutations.flatMap(order => order.foldLeft(Iterator(taken))((all, item) => all.flatMap(each(item, _))))
        case "repetition" =>
          def repeated(count: Int, taken: Taken): Iterator[Taken] = {
            def again = if (most >= 0 && count == most) Iterator.empty
            else each(0, taken).flatMap(more => if (more.size == taken.size) Iterator(more) else repeated(count + 1, more))
            def on = Iterator(taken).filter(_ => count >= least)
            if (greedy) again ++ on else on ++ again
          }
          repeated(0, taken)
      }
    }

    /** The matches by their starts, one search after the other; None if that would take too long. */
    def matches(rows: IndexedSeq[Int]): Option[Seq[(Int, Taken)]] = try Some(search(rows)) catch { case TooLong => None }

    private def search(rows: IndexedSeq[Int]): Seq[(Int, Taken)] = {
      val all = ArrayBuffer.empty[(Int, Taken)]
      var start = 0
      while (start < rows.size) {
        val first = ways(parts.size - 1, rows, start, Vector.empty).nextOption()
        first.foreach(taken => all += ((start, taken)))
        start = math.max(start + 1, first.fold(0) { taken =>
          skip match {
            case Skip.NextRow                      => 0
            case Skip.PastLastRow                  => start + taken.size
            case Skip.ToVariable(variables, true)  => start + taken.lastIndexWhere(variables)
            case Skip.ToVariable(variables, false) => start + taken.indexWhere(variables)
          }
        })
      }
      all.toSeq
    }

    /** The matches that runs find by their starts; the state is written and read at random. */
    def found(rows: IndexedSeq[Int], random: Random): Seq[(Int, Taken)] = {
      var dropped = 0
      def taken(run: Run): Taken = (run.start until run.end).map(run.variableOf).toVector
      def begun = new PatternRuns(
        StandardPattern(parts, Names, local), skip, run => holds(rows, dropped + run.start, taken(run)))
      var runs = begun
      val all = ArrayBuffer.empty[(Int, Taken)]
      def collect(find: ArrayBuffer[Run] => Unit): Unit = {
        val matched = ArrayBuffer.empty[Run]
        find(matched)
        all ++= matched.map(run => (dropped + run.start, taken(run)))
      }
      rows.indices.foreach { at =>
        collect(runs.end(run => at - dropped - run.start >= within, _))
        collect(runs.next(at - dropped, _))
        if (random.nextInt(3) == 0) {
          val from = runs.from(none = at + 1 - dropped)
          val state = ByteBuffer.allocate(runs.bytes)
          runs.write(state, from)
          assert(!state.hasRemaining)
          runs = begun
          runs.read(state.flip())
          dropped += from
        }
      }
      collect(runs.end(_ => true, _))
      assert(runs.isEmpty)
      // After NEXT ROW a match comes out when it is decided.
      if (skip == Skip.NextRow) all.sortBy(_._1).toSeq else all.toSeq
    }
  }

  private object Shape {
    def of(random: Random): Shape = {
      val local = random.nextBoolean()
      val skips = Seq(
        Skip.NextRow, Skip.PastLastRow, Skip.ToVariable(BitSet(random.nextInt(3)), last = random.nextBoolean()),
        Skip.ToVariable(BitSet(0, 2), last = random.nextBoolean()))
      Iterator.continually(parts(random)).flatMap { parts =>
        try {
          StandardPattern(parts, Names, local)
          Some(parts)
        } catch { case _: IllegalArgumentException => None }
      }.map { parts =>
        val conditions = Seq.fill(3)(random.nextInt(if (local) 9 else 12))
        Shape(parts, conditions, local, skips(random.nextInt(4)), 2 + random.nextInt(7))
      }.next()
    }

    /** Any tree; it may be empty. */
    private def parts(random: Random): Seq[PatternPart] = {
      val all = ArrayBuffer.empty[PatternPart]
      def add(part: PatternPart): Int = {
        all += part
        all.size - 1
      }
      def tree(depth: Int): Int = {
        def items = Seq.fill(1 + random.nextInt(3))(tree(depth - 1))
        val made = if (depth == 0) add(row(Names(random.nextInt(3)))) else random.nextInt(5) match {
          case 0     => add(part("alternation", items: _*))
          case 1     => add(part("permutation", items: _*))
          case 2 | 3 => add(part("sequence", items: _*))
          case _     => add(row(Names(random.nextInt(3))).copy(kind = "excluded"))
        }
        val ranges = Seq((0, 1), (0, -1), (1, -1), (2, 3), (0, 2), (2, 2), (2, -1))
        if (random.nextInt(3) > 0) made
        else {
          val (least, most) = ranges(random.nextInt(ranges.size))
          add(PatternPart("repetition", null, places(made), least, most, random.nextBoolean()))
        }
      }
      tree(1 + random.nextInt(3))
      all.toSeq
    }
  }
}
