package io.headrace.spark

import java.nio.ByteBuffer
import java.sql.Timestamp
import java.time.Instant
import java.util.Arrays

import scala.collection.immutable.BitSet
import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, lit, window}

import SparkTesting._

class MatchRecognizeSuite extends PatientSuite {
  import spark.implicits._
  import MatchRecognizeSuite._

  /** A stream of events with a watermark of no delay, unless it says more. */
  private final class Events(delay: String = "0 seconds") {
    val input: MemoryStream[Event] = MemoryStream[Event](spark)

    /** Anew for each operator: Spark gives those that read the same shuffle no watermark, but for the first. */
    def df: DataFrame = input.toDF().withWatermark("ts", delay)

    def find(
        pattern: Seq[PatternVariable],
        navigations: Seq[Navigation],
        skip: String = "past_last_row",
        skipTo: String = null,
        withinMs: Long = 0,
        ttlMs: Long = 0,
        keys: Seq[String] = Seq("k"),
        order: Seq[(String, Boolean, Boolean)] = Nil,
        parts: Seq[PatternPart] = Nil,
        subsets: Seq[PatternSubset] = Nil,
        allRows: Boolean = false,
        df: DataFrame = df
    ): DataFrame = MatchRecognize.recognize(
      df,
      "ts",
      Arrays.asList(keys: _*),
      Arrays.asList(order.map(_._1): _*),
      Arrays.asList(order.map(it => Boolean.box(it._2)): _*),
      Arrays.asList(order.map(it => Boolean.box(it._3)): _*),
      Arrays.asList(pattern: _*),
      Arrays.asList(parts: _*),
      Arrays.asList(subsets: _*),
      Arrays.asList(navigations: _*),
      allRows,
      skip,
      skipTo,
      withinMs,
      ttlMs
    )

    /** One row a second from `from` on. */
    def add(key: String, from: Double, values: Int*): Unit = input.addData(rowsOf(key, from, values))

    /** The watermark goes to `seconds`. */
    def tick(seconds: Double): Unit = input.addData(Event(Tick, at(seconds), 0, None))
  }

  /** Matches of other keys than the tick's, whose rows have no value: seconds of the time, then the other columns. */
  private def seen(rows: Seq[Row]): Seq[Seq[Any]] =
    rows.map(row => row.getTimestamp(0).getTime / 1000.0 +: row.toSeq.tail.map {
      case values: scala.collection.Seq[_] => values.toList
      case value                           => value
    })

  test("runs find the matches that follow from the definition, for any pattern, condition and skip, put away and read again") {
    for (seed <- 1 to 4000) {
      val random = new Random(seed)
      val shape = Shape.of(random)
      val rows = IndexedSeq.tabulate(1 + random.nextInt(12))(id => Event("a", at(id), id, value(random)))
      val expected = new Definition(shape, rows).matches
      // Rows count from the first one that is kept.
      var dropped = 0
      def taken(run: Run) = Taken(rows, dropped + run.start, shape.taken(run))
      def begun = new PatternRuns(shape.rowPattern, shape.after, run => shape.holds(taken(run)))
      var runs = begun
      val places = ArrayBuffer.empty[(Int, Vector[Int])]
      def collect(find: ArrayBuffer[Run] => Unit): Unit = {
        val matched = ArrayBuffer.empty[Run]
        find(matched)
        places ++= matched.map(taken(_).places)
      }
      rows.indices.foreach { at =>
        collect(runs.end(run => shape.withinMs > 0 && rows(at).ms - rows(dropped + run.start).ms >= shape.withinMs, _))
        collect(runs.next(at - dropped, _))
        if (random.nextInt(3) == 0) {
          val from = runs.from(none = at + 1 - dropped)
          val state = ByteBuffer.allocate(runs.bytes)
          runs.write(state, from)
          assertEquals(state.remaining, 0)
          runs = begun
          runs.read(state.flip())
          dropped += from
        }
      }
      if (shape.withinMs > 0) collect(runs.end(_ => true, _))
      assertEquals(places.toSeq, expected.map(_.places), s"seed $seed: $shape")
    }
  }

  for (seed <- 1 to amount(few = 1, all = 2)) test(s"matches are those of the definition, in disorder, with ties and late rows, cut and restarted (seed $seed)") {
    val random = new Random(seed)
    val events = new Events("5 seconds")
    val rows = Seq.tabulate(100) { id =>
      Event(Seq("a", "b", null)(random.nextInt(3)), at(1000 + random.nextInt(120) / 2.0), id, value(random))
    }
    def partition(key: String, shape: Shape): IndexedSeq[Event] = rows.filter(_.k == key).sortBy { row =>
      (row.ms, row.v.fold(if (shape.nullsFirst) -1 else 1)(_ => 0), row.v.map(-_), row.id)
    }.toIndexedSeq
    def findsMuch(shape: Shape): Boolean = {
      val matches = new Definition(shape, partition("a", shape)).matches
      matches.size > 3 && matches.exists(_.variables.size > 2)
    }
    val shapes = Seq("next_row", "past_last_row", Seq("first", "last")(seed % 2)).map { skip =>
      Iterator.continually(Shape.of(random)).find(shape => shape.skip == skip && findsMuch(shape)).get
    }
    val all = shapes.zipWithIndex.map { case (shape, at) =>
      val order = Seq(("v", true, shape.nullsFirst), ("id", false, true))
      events
        .find(shape.pattern, shape.navigations, shape.skip, shape.skipTo, shape.withinMs, order = order)
        .select(lit(at).as("shape"), col("k"), col("ts"), col("ids"), col("A_prev"), col("A_first"))
    }
    // None is late: those before it are at most four seconds after it.
    val arriving = rows.map(row => (row.ms + random.nextInt(4000), row)).sortBy(_._1).map(_._2)
    val checkpoint = newCheckpoint()
    var (left, watermarkMs) = (arriving, 0L)
    val emitted = ArrayBuffer.empty[Row]
    while (left.nonEmpty) emitted ++= running(all.reduce(_ union _), checkpoint) { query =>
      for (_ <- 0 to 1 + random.nextInt(2) if left.nonEmpty) {
        val (batch, rest) = left.splitAt(1 + random.nextInt(30))
        left = rest
        val late = Option.when(watermarkMs > 0)(Event("a", new Timestamp(watermarkMs - random.nextInt(9000)), -1, Some(2)))
        events.input.addData(random.shuffle(batch ++ late))
        query.rows()
        watermarkMs = math.max(watermarkMs, batch.map(_.ms).max - 5000)
      }
      query.came
    }
    emitted ++= running(all.reduce(_ union _), checkpoint) { query =>
      events.tick(100000)
      query.rows()
    }
    shapes.zipWithIndex.foreach { case (shape, at) =>
      Seq("a", "b", null).foreach { key =>
        val inOrder = partition(key, shape)
        val expected = new Definition(shape, inOrder).matches.map { taken =>
          (inOrder(taken.last).ms, taken.all.map(inOrder(_).id).toList, shape.read("A_prev", taken), shape.read("A_first", taken))
        }
        val received = emitted.filter(row => row.getInt(0) == at && row.getString(1) == key).map { row =>
          (row.getTimestamp(2).getTime, row.getSeq[Int](3).toList, Option(row.get(4)), Option(row.get(5)))
        }
        assertEquals(received.toSeq, expected, s"seed $seed, key $key: $shape")
      }
    }
  }

  test("a fall and a rise") {
    val events = new Events
    val pattern = Seq(one("START"), many("DOWN", "down < before_down"), one("UP", "up > before_up"))
    val navigations = Seq(
      Navigation("key", "first", null, "k", 0),
      Navigation("first", "last", "START", "v", 0),
      Navigation("down", "last", "DOWN", "v", 0),
      Navigation("before_down", "prev", "DOWN", "v", 1),
      Navigation("up", "last", "UP", "v", 0),
      Navigation("before_up", "prev", "UP", "v", 1),
      Navigation("falls", "values", "DOWN", "v", 0),
      Navigation("start_row", "first", null, "id", 0)
    )
    val matches = events.find(pattern, navigations).select("ts", "key", "first", "down", "up", "falls", "start_row")
    assertEquals(matches.schema.map(field => (field.name, field.dataType.sql)).take(6).last, ("falls", "ARRAY<INT>"))
    running(matches) { query =>
      events.add("a", 10, 10, 12, 9, 7)
      events.add("b", 11, 3, 2, 1)
      assertEquals(seen(query.rows()), Nil)
      events.add("a", 14, 7, 8, 6, 9)
      events.add("b", 14.5, 4)
      events.tick(100)
      assertEquals(seen(query.rows()).toSet, Set[Seq[Any]](Seq(14.5, "b", 3, 1, 4, List(2, 1), 0), Seq(17.0, "a", 8, 6, 9, List(6), 1)))
    }
  }

  /** Of each variable the values of its rows, and the last one. */
  private def taken(variables: Seq[PatternVariable]): Seq[Navigation] = {
    val names = variables.map(_.name).distinct
    names.map(name => Navigation(name, "values", name, "v", 0)) ++
      names.map(name => Navigation(s"${name.toLowerCase}0", "last", name, "v", 0))
  }

  /** The values that the variables have taken. */
  private def foundIn(
      values: Seq[Int],
      pattern: Seq[PatternVariable],
      skip: String = "past_last_row",
      skipTo: String = null
  ): Seq[Seq[Any]] = {
    val events = new Events
    running(events.find(pattern, taken(pattern), skip, skipTo)) { query =>
      events.add("a", 10, values: _*)
      events.tick(100)
      seen(query.rows()).map(_.slice(1, 1 + pattern.size))
    }
  }

  test("a greedy variable takes the row that the next one may take too, a reluctant one leaves it") {
    def pattern(greedy: Boolean, least: Int) =
      Seq(one("A", "a0 = 0"), PatternVariable("B", least, -1, greedy, "b0 < 10"), one("C", "c0 >= 5"))
    assertEquals(foundIn(Seq(0, 3, 5, 10), pattern(greedy = true, 0)), Seq(Seq(List(0), List(3, 5), List(10))))
    assertEquals(foundIn(Seq(0, 3, 5, -1, 20, 30), pattern(greedy = true, 0)), Seq(Seq(List(0), List(3, 5, -1), List(20))))
    assertEquals(foundIn(Seq(0, 3, 5), pattern(greedy = true, 0)), Nil)
    assertEquals(foundIn(Seq(0, 3, 5, 10), pattern(greedy = false, 0)), Seq(Seq(List(0), List(3), List(5))))
    assertEquals(foundIn(Seq(0, 5, 6), pattern(greedy = false, 0)), Seq(Seq(List(0), Nil, List(5))))
    assertEquals(foundIn(Seq(0, 5, 6), pattern(greedy = false, 1)), Seq(Seq(List(0), List(5), List(6))))
    // Neither B nor C takes the third row.
    assertEquals(foundIn(Seq(0, 3, 12, 0, 1, 12), Seq(one("A", "a0 = 0"), PatternVariable("B", 2, 2, true, "b0 < 10"), one("C"))), Nil)
  }

  test("where the next match may begin") {
    val three = Seq(one("A"), PatternVariable("B", 2, 2, true, null))
    def firsts(skip: String, skipTo: String = null) = foundIn(Seq(1, 2, 3, 4, 5, 6), three, skip, skipTo).map(_.head)
    assertEquals(firsts("next_row"), Seq(1, 2, 3, 4).map(List(_)))
    assertEquals(firsts("past_last_row"), Seq(1, 4).map(List(_)))
    assertEquals(firsts("first", "B"), Seq(1, 2, 3, 4).map(List(_)))
    assertEquals(firsts("last", "B"), Seq(1, 3).map(List(_)))
    assertEquals(firsts("last", "A"), Seq(1, 2, 3, 4).map(List(_)))
  }

  test("a condition over all rows of a variable") {
    val average = "aggregate(A, 0D, (sum, value) -> sum + value) / size(A)"
    val pattern = Seq(many("A", s"$average < 15"), one("B"))
    assertEquals(foundIn(Seq(12, 17, 14, 18, 2, 99, 14), pattern), Seq(Seq(List(12, 17, 14), List(18)), Seq(List(2), List(99))))
  }

  test("rows before the match are read, also from the state, and none where there are none") {
    val events = new Events
    val before = Seq(1, 2).map(offset => Navigation(s"before$offset", "prev", "A", "v", offset))
    val pattern = Seq(one("A", "before2 IS NULL OR v0 > before1"))
    running(events.find(pattern, Navigation("v0", "last", "A", "v", 0) +: before)) { query =>
      events.add("a", 10, 1, 0)
      events.tick(12)
      query.rows()
      events.add("a", 12.5, 5, 4, 6)
      events.tick(100)
      val received = seen(query.rows()).filter(_(1) != null).map(_.tail)
      assertEquals(received, Seq[Seq[Any]](Seq(1, null, null), Seq(0, 1, null), Seq(5, 0, 1), Seq(6, 4, 5)))
    }
  }

  test("without keys all rows are one partition, and without navigations a match is a time") {
    val events = new Events
    val pattern = Seq(PatternVariable("A", 3, 3, true, null))
    running(events.find(pattern, Nil, keys = Nil)) { query =>
      events.add("a", 10, 1, 2, 3)
      events.add("b", 10.5, 1, 2)
      events.add(null, 30, 1)
      events.tick(100)
      assertEquals(seen(query.rows()), Seq(Seq(11.0), Seq(30.0)))
    }
  }

  /** A, any rows, and the value of A again; so a run lives until it finds it. */
  private val again = Seq(one("A", "a0 > 0"), PatternVariable("B", 1, -1, greedy = false, null), one("C", "c0 = a0"))

  test("a match waits while one that began before it may still take its rows, which ends with WITHIN without more rows") {
    val events = new Events
    val waiting = Seq("past_last_row", "next_row").map { skip =>
      events.find(again, taken(again), skip, withinMs = 10000).select(lit(skip), col("A"))
    }
    running(waiting.reduce(_ union _)) { query =>
      def received = query.rows().map(row => (row.getString(0), row.getSeq[Int](1).head))
      events.add("a", 10, 1, 2, 0, 2)
      events.tick(19.999)
      assertEquals(received, Seq(("next_row", 2)))
      events.tick(20)
      assertEquals(received, Seq(("next_row", 2), ("past_last_row", 2)))
      events.tick(40)
      assertEquals(received.size, 2)
    }
  }

  test("a match that began first takes the rows of one that waited for it") {
    assertEquals(foundIn(Seq(1, 2, 0, 2, 1, 3, 3, 3), again).map(_.head), Seq(List(1), List(3)))
    assertEquals(foundIn(Seq(1, 2, 0, 2, 1, 3, 3, 3), again, "next_row").map(_.head), Seq(List(2), List(1), List(3)))
    assertEquals(foundIn(Seq(1, 2, 0, 2, 1, 3, 3, 3), again, "first", "C").map(_.head), Seq(List(1)))
  }

  test("a match has no row as late as WITHIN after its first, to the microsecond") {
    val events = new Events
    val pattern = Seq(one("A", "a0 > 0"), one("B"))
    running(events.find(pattern, taken(pattern), withinMs = 1000)) { query =>
      events.input.addData(
        Event("a", micros(10000500), 0, Some(1)), Event("a", micros(11000499), 1, Some(0)),
        Event("b", micros(10000500), 0, Some(1)), Event("b", micros(11000500), 1, Some(0)))
      events.tick(100)
      assertEquals(seen(query.rows()).size, 1)
    }
  }

  test("nothing is left of a key when it has no run, and WITHIN frees those without more rows") {
    def left(withinMs: Long, ttlMs: Long, more: Navigation*)(values: Int*): Long = {
      val events = new Events
      // The tick is no A: its value is NULL.
      val pattern = Seq(one("A", "a0 > 0"), one("B", "b0 > 0"), one("C", "c0 > 0"))
      running(events.find(pattern, taken(pattern) ++ more, withinMs = withinMs, ttlMs = ttlMs)) { query =>
        events.input.addData((0 until 200).flatMap(key => rowsOf(s"k$key", 10, values)))
        Seq(50, 200, 500, 1000).foreach { seconds =>
          events.tick(seconds)
          query.rows()
        }
        query.query.lastProgress.stateOperators.head.numRowsTotal
      }
    }
    // The groups' indexes stay, and the last tick.
    val few = 64 * 2 + 4
    val (finished, broken, open) = (Seq(1, 2, 3), Seq(1, 2, -1), Seq(-1, 1, 2))
    val before = Navigation("before", "prev", "A", "v", 1)
    assert(left(0, 0)(finished: _*) <= few)
    assert(left(0, 0)(broken: _*) <= few)
    assert(left(10000, 0)(open: _*) <= few)
    assert(left(0, 10000)(open: _*) <= few)
    assert(left(10000, 20000, before)(open: _*) <= few)
    assert(left(0, 0)(open: _*) >= 200)
    assert(left(10000, 0, before)(open: _*) >= 200)
  }

  test("what is older than the time to live is not read any more") {
    val events = new Events
    val pattern = Seq(one("A", "a0 > 0"))
    running(events.find(pattern, taken(pattern) :+ Navigation("before", "prev", "A", "v", 1), ttlMs = 10000)) { query =>
      events.add("a", 10, 1)
      events.add("a", 19.999, 2)
      events.add("a", 30, 3)
      events.tick(100)
      assertEquals(seen(query.rows()).map(_.last), Seq(null, 1, null))
    }
  }

  test("rows without time and rows that are late match nothing") {
    val events = new Events
    running(events.find(Seq(one("A", "a0 > 0")), taken(Seq(one("A"))))) { query =>
      events.input.addData(Event("a", null, 0, Some(1)))
      events.add("a", 10, 2)
      events.tick(20)
      query.rows()
      events.add("a", 15, 3)
      events.add("b", 20.001, 4)
      events.tick(30)
      assertEquals(seen(query.rows()).map(_(2)), Seq(2, 4))
      assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 1L)
    }
  }

  test("rows before 1970 match in the order of their times, whatever the order they come in") {
    val events = new Events("10 seconds")
    val pattern = Seq(one("A", "a0 = 1"), one("B", "b0 = 2"))
    running(events.find(pattern, taken(pattern))) { query =>
      events.add("a", -20, 2, 1)
      query.rows()
      events.add("a", -22, 1)
      events.tick(-5)
      assertEquals(seen(query.rows()).map(_.head), Seq(-20.0))
      events.add("a", 0, 2)
      events.tick(20)
      assertEquals(seen(query.rows()).map(_.head), Seq(-20.0, 0.0))
      assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 0L)
    }
  }

  test("the time of a match is an event time, by which windows count") {
    val events = new Events
    val pattern = Seq(one("A", "a0 > 0"), one("B"))
    val matches = events.find(pattern, taken(pattern))
    val counted = matches.groupBy(window(col("ts"), "10 seconds")).count()
    running(counted) { query =>
      events.add("a", 10, 1, 2, 3, 4)
      events.add("a", 19, 1, 2)
      events.tick(100)
      assertEquals(query.rows().map(row => (row.getStruct(0).getTimestamp(0), row.getLong(1))).toSet, Set((at(10), 2L), (at(20), 1L)))
    }
  }

  test("the rows of windows are found, which come at the last moment of theirs") {
    val events = new Events
    val windows = events.df.groupBy(window(col("ts"), "10 seconds")).count()
      .selectExpr("window_time(window) AS ts", "CAST(count AS INT) AS v")
    val pattern = Seq(one("A"), one("B", "b0 > a0"))
    running(events.find(pattern, taken(pattern), keys = Nil, df = windows)) { query =>
      events.add("a", 10, 1)
      events.tick(19.999)
      query.rows()
      events.add("a", 20, 1, 2, 3)
      events.tick(29.999)
      query.rows()
      events.tick(100)
      assertEquals(seen(query.rows()).map(row => (row(1), row(2))), Seq((List(2), List(4))))
    }
  }

  private def part(kind: String, parts: Int*) = PatternPart(kind, null, Arrays.asList(parts.map(Int.box): _*), 1, -1, greedy = true)
  private def row(variable: String, kind: String = "row") = PatternPart(kind, variable, Arrays.asList(), 1, 1, greedy = true)

  /** a (b | {- c -})+ d, where only d takes a 9. */
  private def shown(events: Events, more: Navigation*)(ttlMs: Long = 0): DataFrame = {
    val variables = Seq(one("a", "a0 = 0"), one("b", "b0 < 5"), one("c", "c0 BETWEEN 5 AND 8"), one("d", "d0 = 9"))
    val parts = Seq(row("a"), row("b"), row("c", "excluded"), part("alternation", 1, 2), part("repetition", 3), row("d"), part("sequence", 0, 4, 5))
    events.find(
      variables,
      more ++ taken(variables),
      parts = parts,
      subsets = Seq(PatternSubset("u", Arrays.asList("b", "c"))),
      allRows = true,
      withinMs = 20000,
      ttlMs = ttlMs
    ).select("ts", more.map(_.name): _*)
  }

  test("each row of a match is shown as the match was when it had taken the row, or as the whole") {
    val events = new Events
    val matches = shown(
      events,
      Navigation("v", "last", null, "v", 0),
      Navigation("label", "last", null, null, 0),
      Navigation("labels", "values", null, null, 0),
      Navigation("u", "values", "u", "v", 0),
      Navigation("final_u", "final_values", "u", "v", 0),
      Navigation("final_first", "final_first", "u", null, 1),
      Navigation("before", "prev", null, null, 1)
    )()
    running(matches) { query =>
      events.add("x", 10, 0, 1, 6, 2, 9)
      events.tick(100)
      assertEquals(seen(query.rows()), Seq[Seq[Any]](
        Seq(10.0, 0, "a", List("a"), Nil, List(1, 6, 2), "c", null),
        Seq(11.0, 1, "b", List("a", "b"), List(1), List(1, 6, 2), "c", "a"),
        Seq(13.0, 2, "b", List("a", "b", "c", "b"), List(1, 6, 2), List(1, 6, 2), "c", "c"),
        Seq(14.0, 9, "d", List("a", "b", "c", "b", "d"), List(1, 6, 2), List(1, 6, 2), "c", "b")
      ))
    }
  }

  test("matches are numbered for each key, from 1 again after the time to live") {
    val (events, checkpoint) = (new Events, newCheckpoint())
    def matches = shown(events, Navigation("n", "number", null, null, 0), Navigation("v", "last", null, "v", 0))(ttlMs = 30000)
    def numbers(query: Running): Seq[Any] = seen(query.rows()).filter(_(2) == 9).map(_(1))
    running(matches, checkpoint) { query =>
      events.add("x", 10, 0, 1, 9)
      events.add("y", 10, 0, 1, 9)
      events.tick(15)
      assertEquals(numbers(query), Seq(1L, 1L))
    }
    running(matches, checkpoint) { query =>
      events.add("x", 20, 0, 1, 9)
      events.tick(60)
      assertEquals(numbers(query), Seq(2L))
      events.add("x", 61, 0, 1, 9)
      events.add("y", 61, 0, 1, 9)
      events.tick(200)
      assertEquals(numbers(query), Seq(2L, 1L, 1L))
      events.tick(300)
      query.rows()
      events.tick(400)
      query.rows()
      // The groups' indexes stay, and the tick.
      assert(query.query.lastProgress.stateOperators.head.numRowsTotal <= 64 * 2 + 4)
    }
  }

  test("state of another pattern fails the query with what to do") {
    val events = new Events
    val checkpoint = newCheckpoint()
    running(events.find(again, taken(again)), checkpoint) { query =>
      events.add("a", 10, 1)
      query.rows()
    }
    events.add("a", 30, 1)
    Seq((again.updated(0, one("A", "a0 > 1")), 0L), (again, 1000L)).foreach { case (other, withinMs) =>
      running(events.find(other, taken(other), withinMs = withinMs), checkpoint) { query =>
        val error = intercept[Exception](query.rows())
        assert(causes(error).exists(_.contains("new checkpoint")), causes(error).mkString("\n"))
      }
    }
  }

  test("what does not fit is refused by name") {
    val events = new Events
    def refused(find: => DataFrame): String = {
      val message = intercept[IllegalArgumentException](find).getMessage
      assert(message.contains("expected ") && message.contains(", found "), message)
      message
    }
    def pattern(variables: PatternVariable*): String = refused(events.find(variables, taken(variables)))
    def navigation(navigation: Navigation): String = refused(events.find(again, Seq(navigation)))
    assert(refused(events.find(again, taken(again), df = events.df.withColumn("ts", col("v")))).contains("found ts INT"))
    assert(refused(events.find(again, taken(again), df = events.input.toDF())).contains("found ts TIMESTAMP without one"))
    assert(refused(events.find(again, taken(again), skip = "nowhere")).contains("found nowhere"))
    assert(refused(events.find(again, taken(again), skip = "first")).contains("found first and null"))
    assert(refused(events.find(again, taken(again), skip = "first", skipTo = "X")).contains("found first and X"))
    assert(refused(events.find(again, taken(again), skip = "next_row", skipTo = "A")).contains("found next_row and A"))
    assert(refused(events.find(again, taken(again), withinMs = -1)).contains("found -1"))
    assert(refused(events.find(again, taken(again), ttlMs = -1)).contains("found -1"))
    assert(pattern().contains("takes a row"))
    assert(pattern(PatternVariable("A", 0, -1, true, null), PatternVariable("B", 0, 1, true, null)).contains("found A B"))
    assert(pattern(again(0), again(0)).contains("found A more than once"))
    assert(pattern(PatternVariable("A", 2, 1, true, null)).contains("found 2 to 1 for A"))
    assert(pattern(PatternVariable("A", 0, 0, true, null)).contains("found 0 to 0 for A"))
    assert(pattern(again(0), again(1), one("C", "c0 + 1")).contains("the condition of C, found c0 + 1"))
    assert(navigation(Navigation("n", "next", "A", "v", 0)).contains("found next"))
    assert(navigation(Navigation("n", "last", "X", "v", 0)).contains("found X"))
    assert(navigation(Navigation("n", "prev", "A", "v", 0)).contains("found 0"))
    assert(navigation(Navigation("ts", "last", "A", "v", 0)).contains("found ts more than once"))
  }
}

private object MatchRecognizeSuite {
  private[spark] final case class Event(k: String, ts: Timestamp, id: Int, v: Option[Int]) {
    def ms: Long = ts.getTime
  }

  private val Tick = "tick"

  private def rowsOf(key: String, from: Double, values: Seq[Int]): Seq[Event] =
    values.zipWithIndex.map { case (value, number) => Event(key, at(from + number), number, Some(value)) }

  private def micros(since1970: Long): Timestamp = Timestamp.from(Instant.ofEpochSecond(0, since1970 * 1000))

  private def one(name: String, condition: String = null): PatternVariable = PatternVariable(name, 1, 1, greedy = true, condition)
  private def many(name: String, condition: String): PatternVariable = PatternVariable(name, 1, -1, greedy = true, condition)

  private def value(random: Random): Option[Int] = Option.when(random.nextInt(8) > 0)(random.nextInt(5))

  /** Rows from `start` on, each with the place of the variable that has taken it. */
  private final case class Taken(rows: IndexedSeq[Event], start: Int, variables: Vector[Int]) {
    def last: Int = start + variables.size - 1
    def all: Seq[Int] = variables.indices.map(start + _)
    def of(variable: Int): Seq[Int] = all.filter(row => variables(row - start) == variable)
    def places: (Int, Vector[Int]) = (start, variables)
  }

  /** A condition in SQL and in Scala, of the variable `name` at the place `at`. */
  private final case class Condition(text: String, holds: Taken => Option[Boolean])

  /** A pattern with all that belongs to it. Conditions read the navigations of `Shape.navigations`. */
  private final case class Shape(
      variables: Seq[(Int, Int, Boolean)],
      conditions: Seq[Condition],
      skip: String,
      skipTo: String,
      withinMs: Long,
      nullsFirst: Boolean
  ) {
    private val names = Shape.Names.take(variables.size)

    val pattern: Seq[PatternVariable] = names.lazyZip(variables).lazyZip(conditions).map { case (name, (least, most, greedy), condition) =>
      PatternVariable(name, least, most, greedy, condition.text)
    }

    val rowPattern: RowPattern = SequencePattern(pattern)

    val after: Skip = (skip, names.indexOf(skipTo)) match {
      case ("next_row", _)      => Skip.NextRow
      case ("past_last_row", _) => Skip.PastLastRow
      case (kind, variable)     => Skip.ToVariable(BitSet(variable), last = kind == "last")
    }

    def navigations: Seq[Navigation] = Shape.navigations(names)

    def taken(run: Run): Vector[Int] = names.indices.flatMap(at => Seq.fill(run.count(BitSet(at)))(at)).toVector

    def holds(taken: Taken): Boolean = conditions(taken.variables.last).holds(taken).contains(true)

    def read(navigation: String, taken: Taken): Option[Int] = Shape.read(navigation, taken)
  }

  private object Shape {
    val Names: Seq[String] = Seq("A", "B", "C", "D")

    def navigations(names: Seq[String]): Seq[Navigation] = names.flatMap { name =>
      Seq(
        Navigation(s"${name}_last", "last", name, "v", 0),
        Navigation(s"${name}_last1", "last", name, "v", 1),
        Navigation(s"${name}_prev", "prev", name, "v", 1),
        Navigation(s"${name}_prev2", "prev", name, "v", 2),
        Navigation(s"${name}_first", "first", name, "v", 0)
      )
    } ++ Seq(
      Navigation("values_A", "values", "A", "v", 0),
      Navigation("all", "values", null, "v", 0),
      Navigation("ids", "values", null, "id", 0),
      Navigation("first1", "first", null, "v", 1),
      Navigation("k", "last", null, "k", 0)
    )

    /** What a navigation of [[navigations]] gives, from its name. */
    def read(navigation: String, taken: Taken): Option[Int] = {
      def row(at: Option[Int]): Option[Int] = at.filter(taken.rows.indices.contains).flatMap(taken.rows(_).v)
      val of = taken.of(Names.indexOf(navigation.take(1)))
      navigation match {
        case "first1"               => row(taken.all.lift(1))
        case s"${_}_last"           => row(of.lastOption)
        case s"${_}_last1"          => row(of.reverse.lift(1))
        case s"${_}_prev"           => row(of.lastOption.map(_ - 1))
        case s"${_}_prev2"          => row(of.lastOption.map(_ - 2))
        case s"${_}_first"          => row(of.headOption)
      }
    }

    private def compared(left: Option[Int], right: Option[Int])(holds: (Int, Int) => Boolean): Option[Boolean] =
      for (one <- left; other <- right) yield holds(one, other)

    private def condition(name: String, random: Random): Condition = {
      val bound = random.nextInt(5)
      def of(navigation: String)(taken: Taken) = read(s"${name}_$navigation", taken)
      random.nextInt(10) match {
        case 0 => Condition(null, _ => Some(true))
        case 1 => Condition(s"${name}_last >= $bound", taken => of("last")(taken).map(_ >= bound))
        case 2 => Condition(s"${name}_last > ${name}_prev", taken => compared(of("last")(taken), of("prev")(taken))(_ > _))
        case 3 =>
          Condition(s"${name}_last >= coalesce(${name}_last1, 0)", taken => of("last")(taken).map(_ >= of("last1")(taken).getOrElse(0)))
        case 4 => Condition(s"${name}_last <> A_first", taken => compared(of("last")(taken), read("A_first", taken))(_ != _))
        case 5 =>
          val sum = "aggregate(values_A, 0, (sum, value) -> sum + coalesce(value, 0))"
          Condition(
            s"$sum + ${name}_last < ${3 * bound}",
            taken => of("last")(taken).map(_ + taken.of(0).flatMap(taken.rows(_).v).sum < 3 * bound)
          )
        case 6 => Condition(s"size(all) <= ${bound + 1}", taken => Some(taken.variables.size <= bound + 1))
        case 7 =>
          Condition(
            s"${name}_prev2 IS NULL OR ${name}_last < ${name}_prev2",
            taken => if (of("prev2")(taken).isEmpty) Some(true) else compared(of("last")(taken), of("prev2")(taken))(_ < _)
          )
        case 8 => Condition(s"${name}_last >= first1", taken => compared(of("last")(taken), read("first1", taken))(_ >= _))
        case _ => Condition(s"${name}_last < $bound", taken => of("last")(taken).map(_ < bound))
      }
    }

    def of(random: Random): Shape = {
      val size = 1 + random.nextInt(4)
      val counts = Seq((1, 1), (1, 1), (0, 1), (0, -1), (1, -1), (1, -1), (2, 3), (0, 2), (2, 2), (1, 3))
      val chosen = Iterator.continually(Seq.fill(size)(counts(random.nextInt(counts.size)))).find(_.exists(_._1 > 0)).get
      val skip = Seq("next_row", "past_last_row", "first", "last")(random.nextInt(4))
      Shape(
        chosen.map { case (least, most) => (least, most, random.nextBoolean()) },
        Names.take(size).map(condition(_, random)),
        skip,
        if (skip == "first" || skip == "last") Names(random.nextInt(size)) else null,
        if (random.nextInt(3) == 0) 2000 + random.nextInt(4) * 1000L else 0,
        random.nextBoolean()
      )
    }
  }

  /** What matches are, without runs that live side by side: for one start after the other all ways to share out the rows
    * are tried to their end.
    */
  private final class Definition(shape: Shape, rows: IndexedSeq[Event]) {

    /** All ways from `start` on, the preferred first, that are complete, or that the rows end before that, which is None. */
    private def ways(start: Int): Seq[Option[Taken]] = {
      val variables = shape.variables
      def isComplete(at: Int, count: Int): Boolean = count >= variables(at)._1 && variables.drop(at + 1).forall(_._1 == 0)
      def go(taken: Vector[Int], at: Int, count: Int): Seq[Option[Taken]] = {
        val row = start + taken.size
        if (row == rows.size) if (shape.withinMs > 0) Nil else Seq(None)
        else if (shape.withinMs > 0 && rows(row).ms - rows(start).ms >= shape.withinMs) Nil
        else choices(taken, at, count).flatMap { case (by, rowsOf) =>
          val more = taken :+ by
          if (isComplete(by, rowsOf)) Seq(Some(Taken(rows, start, more))) else go(more, by, rowsOf)
        }
      }
      def choices(taken: Vector[Int], at: Int, count: Int): Seq[(Int, Int)] = if (at == variables.size) Nil else {
        val (least, most, greedy) = variables(at)
        val may = (most == -1 || count < most) && shape.holds(Taken(rows, start, taken :+ at))
        val own = if (may) Seq((at, count + 1)) else Nil
        val others = if (count >= least) choices(taken, at + 1, 0) else Nil
        if (!greedy) others ++ own else if (may) own else others
      }
      go(Vector.empty, 0, 0)
    }

    /** In the order in which they come out. */
    def matches: Seq[Taken] = {
      val all = rows.indices.map { start =>
        val (complete, open) = ways(start).partition(_.isDefined)
        (start, complete.flatten.minByOption(_.last), open.nonEmpty)
      }
      if (shape.skip == "next_row") all.flatMap(_._2).sortBy(_.last)
      else {
        val out = ArrayBuffer.empty[Taken]
        var next = 0
        // Whoever still lives without a match holds back all that began after it.
        all.takeWhile { case (start, complete, open) =>
          if (start >= next) complete.foreach { taken =>
            out += taken
            val place = shape.skip match {
              case "past_last_row" => taken.last + 1
              case "first"         => taken.of(Shape.Names.indexOf(shape.skipTo)).headOption.getOrElse(start)
              case "last"          => taken.of(Shape.Names.indexOf(shape.skipTo)).lastOption.getOrElse(start)
            }
            next = math.max(place, start + 1)
          }
          start < next || complete.isDefined || !open
        }
        out.toSeq
      }
    }
  }
}
