package io.headrace.spark

import java.sql.Timestamp
import java.util.{Arrays, List => JavaList}
import java.util.Arrays.asList

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._

import SparkTesting._

class TopNSuite extends PatientSuite {
  import spark.implicits._
  import TopNSuite._

  private def flags(values: Boolean*): JavaList[java.lang.Boolean] = Arrays.asList(values.map(Boolean.box): _*)

  /** By the highest v, NULL last, then by the lowest id. */
  private def first(df: DataFrame, limit: Int, op: String, output: String, rank: String): DataFrame =
    TopN.rank(
      df, "row_number", asList("k"), asList("v", "id"), flags(true, false), flags(false, false), limit, op, output, rank, null, TimeToLive.Forever, false)

  /** The same of rows that stay: (row, rank). */
  private def batch(rows: Seq[Item], limit: Int): Set[(Item, Long)] =
    rows.groupBy(_.k).values.flatMap { partition =>
      partition.sortBy(row => (row.v.fold(Double.PositiveInfinity)(-_), row.id)).take(limit).zipWithIndex.map { case (row, at) =>
        (row, at + 1L)
      }
    }.toSet

  private def item(row: Row): Item =
    Item(row.getString(0), Option(row.get(1)).map(_.asInstanceOf[Double]), row.getInt(2), 1)

  /** What is added less what is taken away: each row once. */
  private def left[T](changes: Seq[(T, Int)]): Set[T] = {
    val counts = changes.groupMapReduce(_._1)(_._2)(_ + _).filter(_._2 != 0)
    assert(counts.values.forall(_ == 1), counts.filter(_._2 != 1))
    counts.keySet
  }

  private def signed(rows: Seq[Row]): Set[(Item, Long)] =
    left(rows.map(row => ((item(row), row.getAs[Long]("n")), row.getAs[Byte]("__headrace_op").toInt)))

  private def upserted(rows: Seq[Row]): Set[(Item, Long)] =
    rows.groupBy(row => (row.getString(0), row.getAs[Long]("n"))).values.map(_.last).collect {
      case row if !row.getAs[Boolean]("__headrace_deleted") => (item(row), row.getAs[Long]("n"))
    }.toSet

  private val shapes: Seq[(String, Seq[Row] => Set[(Item, Long)])] = Seq("signed" -> signed, "upsert" -> upserted)

  for ((output, fold) <- shapes)
    test(s"rows that come and go, in any order, however they are cut: $output gives what a batch does") {
      val random = new Random(output.hashCode)
      val input = MemoryStream[Item](spark)
      val ranked = first(input.toDF(), 3, "op", output, "n")
      val rows = for (id <- 1 to 160) yield
        Item(Seq("a", "b", null)(random.nextInt(3)), Option.when(random.nextInt(8) > 0)(random.nextInt(30)), id, 1)
      // Many of the best are taken away, so that those behind them come up; some before they come.
      val gone = (random.shuffle(rows).take(60) ++ rows.sortBy(_.v).takeRight(60)).distinct.map(_.copy(op = -1))
      val changes = gone.take(5) ++ rows.take(100) ++ random.shuffle(rows.drop(100) ++ gone.slice(5, 40)) ++ gone.drop(40)
      def after(count: Int): Set[(Item, Long)] = {
        val here = changes.take(count).groupMapReduce(_.copy(op = 1))(_.op.toInt)(_ + _).filter(_._2 > 0).keys
        batch(here.toSeq, 3)
      }
      val checkpoint = newCheckpoint()
      val early = running(ranked, checkpoint) { query =>
        input.addData(changes.take(5): _*)
        query.rows()
        input.addData(changes.slice(5, 90): _*)
        assertEquals(fold(query.rows()), after(90))
        input.addData(changes.slice(90, 140): _*)
        query.rows()
      }
      running(ranked, checkpoint) { query =>
        input.addData(changes(140))
        assertEquals(fold(early ++ query.rows()), after(141))
        input.addData(changes.drop(141): _*)
        assertEquals(fold(early ++ query.rows()), after(changes.size))
        input.addData(rows.diff(gone.map(_.copy(op = 1))).map(_.copy(op = -1)): _*)
        assertEquals(fold(early ++ query.rows()), Set.empty[(Item, Long)])
        assertEquals(query.query.lastProgress.stateOperators.head.numRowsTotal, 0L)
      }
    }

  for (function <- Seq("rank", "dense_rank"); (limit, numbers) <- Seq((3, 4), (2, 40)); stay <- Seq(false, true))
    test(s"$function up to $limit among $numbers numbers, of rows that ${if (stay) "stay" else "come and go"}, gives what a batch does") {
      val random = new Random((function, limit, stay).hashCode)
      val input = MemoryStream[Item](spark)
      val op = if (stay) null else "op"
      val ranked = TopN.rank(
        input.toDF(), function, asList("k"), asList("v"), flags(true), flags(false), limit, op, "signed", "n", null, TimeToLive.Forever, false)
      val rows = for (id <- 1 to 240) yield Item(Seq("a", "b", null)(random.nextInt(3)), Some(random.nextInt(numbers)), id, 1)
      val gone = if (stay) Seq.empty else (rows.sortBy(_.v).takeRight(110) ++ random.shuffle(rows).take(30)).distinct.map(_.copy(op = -1))
      val changes = gone.take(4) ++ random.shuffle(rows.drop(20) ++ gone.drop(50)) ++ rows.take(20) ++ gone.slice(4, 50)
      def after(count: Int): Set[(Item, Long)] = {
        val here = changes.take(count).groupMapReduce(_.copy(op = 1))(_.op.toInt)(_ + _).filter(_._2 > 0).keys
        here.groupBy(_.k).values.flatMap { partition =>
          val values = partition.toSeq.map(_.v.get)
          def rank(row: Item): Long = 1L + (if (function == "rank") values else values.distinct).count(_ > row.v.get)
          partition.map(row => (row, rank(row))).filter(_._2 <= limit)
        }.toSet
      }
      val checkpoint = newCheckpoint()
      val cuts = Seq(0, 4, 90, 150, 151, changes.size)
      val early = running(ranked, checkpoint) { query =>
        for (Seq(from, until) <- cuts.take(4).sliding(2)) {
          input.addData(changes.slice(from, until): _*)
          assertEquals(signed(query.rows()), after(until))
        }
        query.rows()
      }
      running(ranked, checkpoint) { query =>
        for (Seq(from, until) <- cuts.drop(3).sliding(2)) {
          input.addData(changes.slice(from, until): _*)
          assertEquals(signed(early ++ query.rows()), after(until))
        }
      }
    }

  test("without a rank only the rows that join the first ones and leave them come out") {
    val input = MemoryStream[Item](spark)
    running(first(input.toDF(), 2, null, "signed", null)) { query =>
      def seen = query.rows().map(row => (row.getInt(2), row.getByte(4).toInt))
      input.addData(Item("a", Some(1), 1, 1), Item("a", Some(2), 2, 1))
      assertEquals(seen.toSet, Set((1, 1), (2, 1)))
      input.addData(Item("a", Some(3), 3, 1), Item("a", Some(0), 4, 1))
      assertEquals(seen.drop(2).toSet, Set((1, -1), (3, 1)))
    }
  }

  test("rows that only come give what a batch does, and no more than the first ones are kept") {
    val random = new Random(11)
    val input = MemoryStream[Item](spark)
    val rows = for (id <- 1 to 200) yield Item(Seq("a", "b")(random.nextInt(2)), Some(random.nextInt(50)), id, 1)
    running(first(input.toDF(), 4, null, "upsert", "n")) { query =>
      for (part <- Seq(rows.take(1), rows.slice(1, 120), rows.drop(120))) {
        input.addData(part: _*)
        query.rows()
      }
      assertEquals(upserted(query.rows()), batch(rows, 4))
      assertEquals(query.query.lastProgress.stateOperators.head.numRowsTotal, 2L)
    }
  }

  test("with a limit of 1 the oldest of equal rows stays, and the newest one by the order of time replaces it, over batches too") {
    for ((descending, expected) <- Seq(false -> Seq((1, 7)), true -> Seq((1, 7), (1, 8), (2, 9), (2, 10)))) {
      val input = MemoryStream[(String, Int, Int)](spark)
      val rows = input.toDF().toDF("k", "t", "v")
      val kept = TopN.rank(
        rows, "row_number", asList("k"), asList("t"), flags(descending), flags(false), 1, null, "upsert", null, null, TimeToLive.Forever, descending)
      running(kept) { query =>
        for (row <- Seq((1, 7), (1, 8), (2, 9), (2, 10))) {
          input.addData(("a", row._1, row._2))
          query.rows()
        }
        assertEquals(query.rows().map(row => (row.getInt(1), row.getInt(2))), expected)
        assertEquals(query.rows().map(_.getBoolean(3)).distinct, Seq(false))
      }
    }
  }

  test("NULLs go where they are told, NaN is the greatest number, and each column has its direction") {
    val data = Seq((Some(1.0), "b"), (None, "a"), (Some(Double.NaN), "c"), (Some(1.0), null), (Some(1.0), "d"))
    val cases = Seq(
      (flags(false, true), flags(true, false)) -> Seq("a", "d", "b", null, "c"),
      (flags(true, false), flags(false, true)) -> Seq("c", null, "b", "d", "a"))
    for (((down, nulls), expected) <- cases) {
      val input = MemoryStream[(Option[Double], String)](spark)
      val rows = input.toDF().toDF("x", "s")
      val ranked = TopN.rank(
        rows, "row_number", asList(), asList("x", "s"), down, nulls, 9, null, "upsert", "n", null, TimeToLive.Forever, false)
      running(ranked) { query =>
        input.addData(data: _*)
        assertEquals(query.rows().sortBy(_.getLong(2)).map(_.getString(1)), expected)
      }
    }
  }

  test("the first rows of a window come out once, when it closes; late ones are dropped, and nothing is left") {
    val input = MemoryStream[(String, Timestamp, Int)](spark)
    val events = input.toDF().toDF("k", "ts", "v").withWatermark("ts", "0 seconds")
    val closing = TopN.rank(
      events.withColumn("end", window(col("ts"), "10 seconds").getField("end")), "row_number",
      asList("end"), asList("v"), flags(true), flags(false), 2, null, "insert", "n", "end", TimeToLive.Forever, false)
    assertEquals(closing.columns.toSeq, Seq("k", "ts", "v", "end", "n"))
    running(closing) { query =>
      def seen = query.rows().map(row => (row.getString(0), row.getInt(2), row.getLong(4)))
      input.addData(("early", at(-15), 8), ("a", at(-12), 5))
      input.addData(("b", at(-8), 7))
      assertEquals(seen, Seq(("early", 8, 1L), ("a", 5, 2L)))
      input.addData(("a", at(1), 5), ("b", at(2), 7), ("c", at(3), 6), ("d", at(9), 1))
      assertEquals(seen.drop(2), Seq(("b", 7, 1L)))
      input.addData(("e", at(12), 1))
      assertEquals(seen.drop(3), Seq(("b", 7, 1L), ("c", 6, 2L)))
      input.addData(("f", at(4), 9), ("g", at(13), 2))
      assertEquals(seen.size, 5)
      input.addData(("h", at(40), 0))
      assertEquals(seen.drop(5), Seq(("g", 2, 1L), ("e", 1, 2L)))
      input.addData(("i", at(60), 0))
      query.rows()
      assert(query.query.lastProgress.stateOperators.head.numRowsTotal <= 3)
    }
  }

  test("the windows that Spark closes in a batch are ranked in the same batch") {
    val input = MemoryStream[(String, Timestamp)](spark)
    val counted = input.toDF().toDF("k", "ts").withWatermark("ts", "0 seconds")
      .groupBy(window(col("ts"), "10 seconds"), col("k")).count()
      .select(col("window"), col("window.end").as("end"), col("k"), col("count"))
    val closing = TopN.rank(
      counted, "row_number", asList("end"), asList("count"), flags(true), flags(false), 1, null, "insert", null, "end", TimeToLive.Forever, false)
    running(closing) { query =>
      input.addData(("a", at(1)), ("b", at(2)), ("a", at(3)), ("c", at(14)))
      input.addData(("c", at(25)))
      query.rows()
      input.addData(("c", at(35)))
      assertEquals(query.rows().map(row => (row.getString(2), row.getLong(3))), Seq(("a", 2L), ("c", 1L), ("c", 1L)))
    }
  }

  test("rows that go again before their window closes are not among the first") {
    val input = MemoryStream[(String, Timestamp, Int, Int)](spark)
    val events = input.toDF().toDF("k", "end", "v", "op").withWatermark("end", "0 seconds")
    val closing = TopN.rank(
      events, "row_number", asList("end"), asList("v"), flags(true), flags(false), 1, "op", "insert", null, "end", TimeToLive.Forever, false)
    running(closing) { query =>
      input.addData(("a", at(10), 5, 1), ("b", at(10), 4, 1), ("z", at(1), 0, 1))
      input.addData(("a", at(10), 5, -1))
      input.addData(("z", at(20), 0, 1))
      assertEquals(query.rows().map(_.getString(0)).filter(_ != "z"), Seq("b"))
    }
  }

  test("arguments that do not fit together are refused") {
    val rows = MemoryStream[Item](spark).toDF()
    def refused(limit: Int, output: String, rank: String): String =
      intercept[IllegalArgumentException](first(rows, limit, null, output, rank)).getMessage
    assert(refused(0, "signed", null).contains("found 0"))
    assert(refused(2, "upsert", null).contains("a rank with the upserts of a limit of 2"))
    assert(refused(2, "insert", null).contains("closes a partition"))
    assert(refused(2, "append", null).contains("found append"))
    assert(intercept[IllegalArgumentException](RankFunction.named("ntile")).getMessage.contains("found ntile"))
  }
}

object TopNSuite {
  final case class Item(k: String, v: Option[Double], id: Int, op: Byte)
}
