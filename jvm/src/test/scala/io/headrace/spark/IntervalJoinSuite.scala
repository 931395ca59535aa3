package io.headrace.spark

import java.sql.Timestamp
import java.time.Instant
import java.util.Arrays.asList

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, lit, window}

import SparkTesting._

class IntervalJoinSuite extends PatientSuite {
  import spark.implicits._
  import IntervalJoinSuite._

  /** Two streams: (key, event time, row). */
  private final class Streams(delay: String = "0 seconds") {
    val ours: MemoryStream[Record] = MemoryStream[Record](spark)
    val theirs: MemoryStream[Record] = MemoryStream[Record](spark)
    val left: DataFrame = ours.toDF().toDF("k", "__headrace_rowtime", "a").withWatermark("__headrace_rowtime", delay)
    val right: DataFrame = theirs.toDF().toDF("id", "__headrace_rowtime", "b").withWatermark("__headrace_rowtime", delay)

    def joined(how: String, lowerMs: Long, upperMs: Long, condition: String = null): DataFrame =
      IntervalJoin.join(left, right, asList("k"), asList("id"), lowerMs, upperMs, condition, how)

    def ours(key: String, seconds: Double, row: Int): Unit = ours.addData((key, at(seconds), row))
    def theirs(key: String, seconds: Double, row: Int): Unit = theirs.addData((key, at(seconds), row))
    def tick(seconds: Double): Unit = {
      ours(Tick, seconds, 0)
      theirs(Tick, seconds, 0)
    }
  }

  test("a join equals Spark's over the same rows, in disorder, with duplicates and NULLs, cut and restarted") {
    val random = new Random(11)
    def relation() = Seq.fill(60) {
      val time = if (random.nextInt(12) == 0) null else at(100 + random.nextInt(40) / 2.0)
      (Seq("a", "b", "c", "d", null)(random.nextInt(5)), time, random.nextInt(6))
    }
    val (left, right) = (relation(), relation())
    val streams = new Streams("1000 seconds")
    val cases = Seq(("inner", -2000, 3000, null), ("left", -1500, 0, "a < b"), ("right", 1000, 4000, null), ("full", -3000, -500, "a <> b"))
    val all = cases.map { case (how, lower, upper, condition) =>
      streams.joined(how, lower.toLong, upper.toLong, condition).select(lit(how), col("k"), col("a"), col("id"), col("b"), col("__headrace_rowtime"))
    }
    val sides = random.shuffle(left.map((true, _)) ++ right.map((false, _)))
    val checkpoint = newCheckpoint()
    // A restart after every batch.
    val emitted = sides.grouped(amount(few = 60, all = 40)).toSeq.flatMap { batch =>
      running(all.reduce(_ union _), checkpoint) { query =>
        streams.ours.addData(batch.collect { case (true, row) => row })
        streams.theirs.addData(batch.collect { case (false, row) => row })
        query.rows()
      }
    } ++ running(all.reduce(_ union _), checkpoint) { query =>
      streams.tick(2000)
      val rows = query.rows()
      // Nothing is left but the ticks and the groups' indexes.
      assert(query.query.lastProgress.stateOperators.forall(_.numRowsTotal <= 70), query.query.lastProgress.prettyJson)
      rows
    }
    cases.foreach { case (how, lower, upper, condition) =>
      val near = s"k = id AND rt BETWEEN lt + INTERVAL '${lower / 1000.0}' SECOND AND lt + INTERVAL '${upper / 1000.0}' SECOND"
      val on = expr(if (condition == null) near else s"$near AND $condition")
      val expected = left.toDF("k", "lt", "a").join(right.toDF("id", "rt", "b"), on, how)
        .select(lit(how), col("k"), col("a"), col("id"), col("b"), expr("greatest(lt, rt)"))
      val received = emitted.filter(row => row.getString(0) == how && row.get(1) != Tick && row.get(3) != Tick)
      assertEquals(counted(received), counted(expected.collect().toSeq), how)
    }
  }

  test("a row closes exactly when the watermark reaches the bound, and one at the bound still meets it") {
    val streams = new Streams
    running(streams.joined("left", -1000, 10000)) { query =>
      streams.ours("x", 5, 1)
      streams.ours("y", 5, 2)
      streams.tick(14.999)
      assertEquals(seen(query.rows()), Set.empty[(Option[Any], Option[Any])])
      streams.theirs("x", 15, 11)
      streams.tick(15)
      assertEquals(seen(query.rows()), Set[(Option[Any], Option[Any])]((Some(1), Some(11)), (Some(2), None)))
    }
  }

  test("rows before 1970 meet, and come out alone when the watermark has passed them") {
    val streams = new Streams
    running(streams.joined("full", -1000, 10000)) { query =>
      streams.ours("x", -40, 1)
      streams.ours("z", -40, 3)
      streams.tick(-39)
      assertEquals(seen(query.rows()), Set.empty[(Option[Any], Option[Any])])
      streams.ours("y", -8, 2)
      streams.theirs("x", -30, 11)
      streams.tick(-28)
      query.rows()
      streams.theirs("y", 1, 12)
      streams.theirs("x", -28.5, 13)
      assertEquals(seen(query.rows()), Set[(Option[Any], Option[Any])]((Some(1), Some(11)), (Some(3), None), (Some(2), Some(12))))
      assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 1L)
    }
  }

  test("bounds are exact to the microsecond") {
    val streams = new Streams
    running(streams.joined("inner", 0, 1000)) { query =>
      streams.ours.addData(("x", micros(5000000), 1))
      streams.theirs.addData(("x", micros(4999999), 11), ("x", micros(5000000), 12), ("x", micros(6000000), 13), ("x", micros(6000001), 14))
      assertEquals(seen(query.rows()).map(_._2), Set[Option[Any]](Some(12), Some(13)))
    }
  }

  test("a row that the watermark has passed is dropped and counted as late") {
    val streams = new Streams
    running(streams.joined("full", -10000, 10000)) { query =>
      streams.ours("x", 19, 1)
      streams.tick(20)
      query.rows()
      streams.theirs("x", 20, 11)
      streams.theirs("x", 20.001, 12)
      assertEquals(seen(query.rows()), Set[(Option[Any], Option[Any])]((Some(1), Some(12))))
      assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 1L)
    }
  }

  test("a window over an outer join has the rows that come out alone, long after their time") {
    val streams = new Streams
    val counts = streams.joined("left", -60000, 60000).where(col("k") =!= Tick).groupBy(window(col("__headrace_rowtime"), "10 seconds")).count()
    running(counts) { query =>
      streams.ours("x", 5, 1)
      streams.ours("y", 6, 2)
      streams.theirs("y", 15, 3)
      Seq(20, 50, 64, 66, 130, 300).foreach { seconds =>
        streams.tick(seconds.toDouble)
        query.rows()
      }
      assertEquals(query.rows().map(row => (row.getStruct(0).getTimestamp(0), row.getLong(1))).toSet, Set((at(0), 1L), (at(10), 1L)))
    }
  }

  test("a chain of joins loses no row") {
    val streams = new Streams
    val first = streams.joined("left", -10000, 10000).select("k", "a", "b", "__headrace_rowtime")
    val third = streams.theirs.toDF().toDF("id2", "__headrace_rowtime", "c").withWatermark("__headrace_rowtime", "0 seconds")
    val chain = IntervalJoin.join(first, third, asList("k"), asList("id2"), -5000, 5000, null, "full")
    running(chain) { query =>
      streams.ours("x", 5, 1)
      streams.theirs("y", 6, 2)
      Seq(10, 16, 30, 100, 200).foreach { seconds =>
        streams.tick(seconds.toDouble)
        query.rows()
      }
      val rows = query.rows().filterNot(row => row.get(0) == Tick || row.get(4) == Tick).map(row => (row.get(0), row.get(4)))
      assertEquals(rows.toSet, Set[(Any, Any)](("x", null), (null, "y")))
    }
  }

  test("what cannot be joined is refused by name") {
    val streams = new Streams
    def refused(left: DataFrame, lowerMs: Long, how: String): String =
      intercept[IllegalArgumentException](
        IntervalJoin.join(left, streams.right, asList("k"), asList("id"), lowerMs, 10, null, how)
      ).getMessage
    assert(refused(streams.left, 11, "inner").contains("found 11 ms and 10 ms"))
    assert(refused(streams.left, 0, "semi").contains("found semi"))
    assert(refused(streams.left.drop("__headrace_rowtime"), 0, "inner").contains("left side"))
  }
}

private object IntervalJoinSuite {
  type Record = (String, Timestamp, Int)

  private val Tick = "tick"

  private def micros(since1970: Long): Timestamp = Timestamp.from(Instant.ofEpochSecond(0, since1970 * 1000))

  /** (a, b) of the rows that are no ticks. */
  private def seen(rows: Seq[Row]): Set[(Option[Any], Option[Any])] = rows
    .filterNot(row => row.getAs[Any]("k") == Tick || row.getAs[Any]("id") == Tick)
    .map(row => (Option(row.getAs[Any]("a")), Option(row.getAs[Any]("b"))))
    .toSet

  private def counted(rows: Seq[Row]): Map[Seq[Any], Int] = rows.groupMapReduce(_.toSeq)(_ => 1)(_ + _)
}
