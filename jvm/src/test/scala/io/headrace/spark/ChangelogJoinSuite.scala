package io.headrace.spark

import java.sql.Timestamp
import java.util.Arrays.asList

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, lit, struct, to_json, window}
import org.apache.spark.sql.types.ByteType

import SparkTesting._

class ChangelogJoinSuite extends PatientSuite {
  import spark.implicits._
  import ChangelogJoinSuite._

  /** Two relations given by changes: (key, row, 1 or -1). */
  private final class Changes {
    val ours: MemoryStream[(String, Int, Byte)] = MemoryStream[(String, Int, Byte)](spark)
    val theirs: MemoryStream[(String, Int, Byte)] = MemoryStream[(String, Int, Byte)](spark)
    val left: DataFrame = ours.toDF().toDF("k", "a", "__headrace_op")
    val right: DataFrame = theirs.toDF().toDF("id", "b", "__op2")

    def joined(how: String, condition: String = null): DataFrame =
      ChangelogJoin.join(left, right, asList("k"), asList("id"), "__headrace_op", "__op2", condition, how, null, null, TimeToLive.Forever)
  }

  test("a join equals Spark's over what is left of the rows, however they are cut") {
    val random = new Random(7)
    val changes = new Changes
    def relation() = Seq.fill(40)((Seq("a", "b", "c", "d", null)(random.nextInt(5)), random.nextInt(6)))
    val (left, right) = (relation(), relation())
    def history(rows: Seq[(String, Int)]) = {
      val gone = relation()
      (rows ++ gone).map { case (key, row) => (key, row, 1.toByte) } ++ gone.map { case (key, row) => (key, row, -1: Byte) }
    }
    def columns(how: String) = if (how == "semi") Seq("k", "a") else Seq("k", "a", "id", "b")
    // SignedJoinSuite has every kind; here are the two that differ most in what is carried, in one query.
    val conditions = Seq("full" -> "nullif(a + b, 4) % 3 <> 0", "semi" -> null)
    val all = conditions.map { case (how, condition) =>
      val row = to_json(struct(columns(how).map(col): _*), Map("ignoreNullFields" -> "false").asJava)
      changes.joined(how, condition).select(lit(how), row, col("__headrace_op"))
    }
    val sides = random.shuffle(history(left).map((true, _)) ++ history(right).map((false, _)))
    val checkpoint = newCheckpoint()
    // A restart after every two batches.
    val emitted = sides.grouped(80).toSeq.grouped(2).toSeq.flatMap { batches =>
      running(all.reduce(_ union _), checkpoint) { query =>
        batches.foreach { batch =>
          changes.ours.addData(batch.collect { case (true, change) => change })
          changes.theirs.addData(batch.collect { case (false, change) => change })
          query.rows()
        }
        query.rows()
      }
    }
    conditions.foreach { case (how, condition) =>
      val on = expr("k = id") && (if (condition == null) lit(true) else expr(condition))
      val spark = left.toDF("k", "a").join(right.toDF("id", "b"), on, if (how == "semi") "left_semi" else how)
      val rows = spark.select(to_json(struct(columns(how).map(col): _*), Map("ignoreNullFields" -> "false").asJava)).as[String]
      val received = emitted.filter(_.getString(0) == how).map(row => (Seq[Any](row.getString(1)), row.getByte(2).toInt))
      assertEquals(summed(received), summed(rows.collect().toSeq.map(row => (Seq[Any](row), 1))), how)
    }
  }

  test("all rows meet without keys") {
    val changes = new Changes
    val joined = ChangelogJoin.join(changes.left, changes.right, asList(), asList(), "__headrace_op", "__op2", "a < b", "left", null, null, TimeToLive.Forever)
    running(joined) { query =>
      changes.ours.addData(("x", 1, 1: Byte), ("y", 5, 1: Byte))
      changes.theirs.addData((null, 3, 1: Byte), ("p", 4, 1: Byte))
      assertEquals(summed(query.rows().map(row => (row.toSeq.init, row.getByte(4).toInt))), Map[Seq[Any], Int](
        Seq("x", 1, null, 3) -> 1, Seq("x", 1, "p", 4) -> 1, Seq("y", 5, null, null) -> 1))
    }
  }

  /** Two streams with event time: (key, seconds, row). */
  private final class Streams {
    val ours: MemoryStream[(String, Timestamp, Int)] = MemoryStream[(String, Timestamp, Int)](spark)
    val theirs: MemoryStream[(String, Timestamp, Int)] = MemoryStream[(String, Timestamp, Int)](spark)
    val left: DataFrame = ours.toDF().toDF("k", "__headrace_rowtime", "a").withWatermark("__headrace_rowtime", "0 seconds")
    val right: DataFrame = theirs.toDF().toDF("id", "__headrace_rowtime", "b").withWatermark("__headrace_rowtime", "0 seconds")

    def ours(key: String, seconds: Double, row: Int): Unit = ours.addData((key, at(seconds), row))
    def theirs(key: String, seconds: Double, row: Int): Unit = theirs.addData((key, at(seconds), row))
    def tick(seconds: Double): Unit = {
      ours(Tick, seconds, 0)
      theirs(Tick, seconds, 0)
    }
  }

  test("the columns are those of both sides, and a window takes the later of their times") {
    val streams = new Streams
    val left = streams.left.withColumn("__headrace_id", col("k"))
    val joined = ChangelogJoin.join(left, streams.right, asList("__headrace_id"), asList("id"), null, null, null, "inner", null, null, TimeToLive.Forever)
    assertEquals(joined.columns.toSeq, Seq("k", "__headrace_rowtime", "a", "id", "b"))
    val left2 = ChangelogJoin.join(left, streams.right, asList("__headrace_id"), asList("id"), null, null, null, "left", null, null, TimeToLive.Forever)
    assertEquals(left2.columns.toSeq, Seq("k", "__headrace_rowtime", "a", "id", "b", "__headrace_op"))
    assertEquals(left2.schema("__headrace_op").dataType, ByteType)
    running(joined.groupBy(window(col("__headrace_rowtime"), "10 seconds"), col("k")).count()) { query =>
      streams.ours("x", 5, 1)
      streams.theirs("x", 7, 2)
      streams.theirs("x", 12, 3)
      streams.tick(100)
      val rows = query.rows().filter(_.getString(1) == "x")
      assertEquals(rows.map(row => (row.getStruct(0).getTimestamp(0), row.getLong(2))).toSet, Set((at(0), 1L), (at(10), 1L)))
    }
  }

  test("windows join: pairs at once, the rest when they close, nothing afterwards, and their state goes") {
    val streams = new Streams
    def windowed(side: DataFrame, end: String) = side.withColumn(end, window(col("__headrace_rowtime"), "10 seconds")("end"))
    val joined = ChangelogJoin.join(
      windowed(streams.left, "ends"), windowed(streams.right, "until"), asList("k", "ends"), asList("id", "until"),
      null, null, null, "full", "ends", "until", TimeToLive.Forever)
    def seen(rows: Seq[Row]) = rows.filterNot(row => row.getString(0) == Tick || row.getString(4) == Tick).map { row =>
      assertEquals(row.getByte(7), 1: Byte)
      (Option(row.get(2)), Option(row.get(5)))
    }.toSet
    running(joined) { query =>
      streams.ours("x", 5, 1)
      streams.ours("x", 15, 2)
      streams.theirs("x", 6, 11)
      streams.theirs("y", 8, 12)
      val pair = (Option[Any](1), Option[Any](11))
      assertEquals(seen(query.rows()), Set(pair))
      streams.tick(10)
      assertEquals(seen(query.rows()), Set(pair, (None, Some(12))))
      streams.tick(30)
      assertEquals(seen(query.rows()), Set(pair, (None, Some(12)), (Some(2), None)))
      streams.ours("y", 9, 3)
      streams.tick(50)
      assertEquals(seen(query.rows()), Set(pair, (None, Some(12)), (Some(2), None)))
      assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 1L)
      // Indexes of the groups, and the last tick.
      assert(query.query.lastProgress.stateOperators.head.numRowsTotal < 16)
    }
  }

  test("a key that nobody touched for the time to live is forgotten, one that was is not") {
    val streams = new Streams
    val ttl = TimeToLive(10000, repeats = false)
    val joined = ChangelogJoin.join(streams.left, streams.right, asList("k"), asList("id"), null, null, null, "inner", null, null, ttl)
    running(joined) { query =>
      streams.tick(100)
      query.rows()
      streams.ours("x", 101, 1)
      streams.ours("y", 101, 2)
      query.rows()
      streams.tick(106)
      query.rows()
      streams.ours("x", 106, 3)
      query.rows()
      streams.tick(113)
      query.rows()
      streams.theirs("x", 113, 4)
      streams.theirs("y", 113, 5)
      assertEquals(query.rows().filterNot(_.getString(0) == Tick).map(_.getInt(2)).toSet, Set(1, 3))
    }
  }

  test("state of another join fails the query with what to do") {
    val changes = new Changes
    val checkpoint = newCheckpoint()
    running(changes.joined("left"), checkpoint) { query =>
      changes.ours.addData(("a", 1, 1: Byte))
      query.rows()
    }
    running(changes.joined("left", "a < b"), checkpoint) { query =>
      changes.ours.addData(("a", 2, 1: Byte))
      val error = intercept[Exception](query.rows())
      assert(causes(error).exists(_.contains("new checkpoint")), causes(error).mkString("\n"))
    }
  }

  test("columns that cannot be joined are refused by name") {
    val changes = new Changes
    def refused(left: DataFrame, key: String, condition: String, how: String): String =
      intercept[IllegalArgumentException](
        ChangelogJoin.join(left, changes.right, asList(key), asList("id"), "__headrace_op", "__op2", condition, how, null, null, TimeToLive.Forever)
      ).getMessage
    assert(refused(changes.left, "a", null, "inner").contains("a INT and id STRING"))
    assert(refused(changes.left, "k", null, "outer").contains("found outer"))
    assert(refused(changes.left, "k", "a + b", "inner").contains("found a + b"))
    assert(refused(changes.left.withColumn("b", col("a")), "k", null, "inner").contains("found b on both"))
  }
}

private object ChangelogJoinSuite {
  private val Tick = "tick"

  /** How often each row is there. */
  private def summed(rows: Seq[(Seq[Any], Int)]): Map[Seq[Any], Int] =
    rows.groupMapReduce(_._1)(_._2)(_ + _).filter(_._2 != 0)
}
