package io.headrace.spark

import java.sql.Timestamp
import java.util.Arrays.asList

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._

import SparkTesting._

class TimeToLiveSuite extends PatientSuite {
  import spark.implicits._
  import TimeToLiveSuite._

  test("a key that was touched ends when its time to live is over, and no key above it ends before") {
    val random = new Random(1)
    for (round <- 1 to 500) {
      val ttlMs = 1L + random.nextInt(40)
      // Three operators: the rows of each are derived from those below.
      val keys = Seq.fill(3)(new Key(TimeToLive(ttlMs, repeats = true)))
      var (nowMs, lastMs) = (if (random.nextBoolean()) 0L else 1000L, Long.MinValue)
      var alive = true
      while (alive) {
        val touched = lastMs == Long.MinValue || random.nextInt(4) == 0
        if (touched) lastMs = nowMs
        keys.foldLeft(touched)((emitted, key) => key.batch(nowMs, emitted, changed = emitted && random.nextInt(4) == 0))
        alive = keys.head.isAlive
        val lastedMs = if (lastMs == 0) 1000 else lastMs
        assertEquals(alive, nowMs == 0 || nowMs < lastedMs + ttlMs, s"round $round: touched at $lastedMs for $ttlMs, now $nowMs")
        if (alive) for (key <- keys) assert(key.isAlive, s"round $round: at $nowMs a derived key ended before, of $ttlMs")
        nowMs = if (nowMs == 0) 1000 else nowMs + random.nextInt(1 + ttlMs.toInt)
      }
    }
  }

  test("a key repeats its rows within half a time to live after it was touched, and at most once in a half") {
    val key = new Key(TimeToLive(10, repeats = true))
    val emitted = for (nowMs <- 1000L to 1100L if key.batch(nowMs, touched = true, changed = nowMs == 1000)) yield nowMs
    assertEquals(emitted, 1000L to 1100L by 5)
  }

  test("what is touched keeps alive what was derived from it, over a checkpoint of before too") {
    val input = MemoryStream[Touch](spark)
    val expected = (for (tag <- tags) yield Seq((tag, 9) -> 1L, (tag, 5) -> (if (tag == "distinct") 4L else 3L))).flatten
    assertEquals(shown(counted(input)), expected.toMap + (("two", 9) -> 2L))
  }

  test("a join keeps alive what was derived from its rows, with a key that is NULL too") {
    val input = MemoryStream[Touch](spark)
    def counts(ttl: TimeToLive): DataFrame = {
      val table = input.toDF().withWatermark("ts", "0 seconds")
      val left = Normalize.rows(table.where("tag = 'join'").select("tag", "k", "v"), asList("k"), null, null, false, ttl)
      val right = table.where("tag = 'other'").select(col("k").as("id"))
      val joined = ChangelogJoin.join(left, right, asList("k"), asList("id"), "__headrace_op", null, null, "left", null, null, ttl)
      ChangelogAggregate.aggregate(
        joined.select("tag", "v", "__headrace_op"), asList("tag", "v"), asList(AggregateCall("count", "COUNT", asList(), false, "BIGINT")),
        "__headrace_op", "upsert", ttl.copy(repeats = false))
    }
    val (checkpoint, keys) = (newCheckpoint(), Seq[String]("a", "b", "c", null))
    def add(second: Int, value: Int, keys: Seq[String]): Unit =
      input.addData(keys.map(key => Touch("join", key, value, at(second))))
    val before = running(counts(TimeToLive(10000, repeats = false)), checkpoint) { query =>
      add(100, 5, keys)
      query.rows()
    }
    val after = running(counts(TimeToLive(10000, repeats = true)), checkpoint) { query =>
      for (second <- 105 to 113 by 4) {
        add(second, 5, keys)
        query.rows()
      }
      add(114, 9, Seq("a"))
      query.rows()
    }
    assertEquals(shown(before ++ after), Map(("join", 5) -> 3L, ("join", 9) -> 1L))
  }

  test("a left join in a union keeps alive what was derived from its rows") {
    val input = MemoryStream[Touch](spark)
    val ttl = TimeToLive(10000, repeats = true)
    val table = input.toDF().withWatermark("ts", "0 seconds")
    def newest(tag: String) =
      Normalize.rows(table.where(col("tag") === tag).select("tag", "k", "v"), asList("k"), null, null, false, ttl)
    def values(df: DataFrame) = df.select("tag", "v", "__headrace_op")
    val right = table.where("tag = 'other'").select(col("k").as("id"))
    val joined = ChangelogJoin.join(newest("join"), right, asList("k"), asList("id"), "__headrace_op", null, null, "left", null, null, ttl)
    val counted = ChangelogAggregate.aggregate(
      values(newest("normalize")).union(values(joined)), asList("tag", "v"),
      asList(AggregateCall("count", "COUNT", asList(), false, "BIGINT")), "__headrace_op", "upsert", ttl.copy(repeats = false))
    val (sides, keys) = (Seq("normalize", "join"), Seq("a", "b", "c", "d"))
    val rows = running(counted) { query =>
      def add(second: Int, value: Int, keys: Seq[String]): Unit = {
        input.addData(Touch("other", "none", 0, at(second)) +: (for (side <- sides; key <- keys) yield Touch(side, key, value, at(second))))
        query.rows()
      }
      add(100, 5, keys)
      for (second <- 105 to 113 by 4) add(second, 5, keys)
      add(114, 9, Seq("a"))
      query.rows()
    }
    assertEquals(shown(rows), (for (side <- sides) yield Seq((side, 5) -> 3L, (side, 9) -> 1L)).flatten.toMap)
  }

  private val tags = Seq("group", "distinct", "normalize", "top")

  /** How many rows there are of each value, from operators of every kind. */
  private def counts(input: MemoryStream[Touch], ttl: TimeToLive): DataFrame = {
    val table = input.toDF().withWatermark("ts", "0 seconds")
    def of(tag: String) = table.where(col("tag") === tag)
    def signed(df: DataFrame, n: String) = df.select(col("tag"), col(n).as("n"), col("__headrace_op"))
    def first(df: DataFrame, limit: Int) =
      TopN.rank(df, "row_number", asList("tag", "part"), asList("v"), asList(true), asList(false), limit, null, "signed", null, null, ttl, false)
    val newest = Normalize.rows(of("normalize").select("tag", "k", "v"), asList("k"), null, null, false, ttl)
    val greatest = ChangelogAggregate.aggregate(
      of("group"), asList("tag", "k"), asList(AggregateCall("n", "MAX", asList("v"), false, "INT")), null, "signed", ttl)
    val distinct = ChangelogAggregate.aggregate(of("distinct"), asList("tag", "k", "v"), asList(), null, "signed", ttl)
    val all = Seq(
      signed(greatest, "n"),
      signed(distinct, "v"),
      signed(newest, "v"),
      signed(first(of("top").withColumn("part", col("k")), 1), "v"),
      signed(first(of("two").withColumn("part", lit(0)), 2).withColumn("hundreds", (col("v") / 100).cast("int")), "hundreds")
    )
    ChangelogAggregate.aggregate(
      all.reduce(_ union _), asList("tag", "n"), asList(AggregateCall("count", "COUNT", asList(), false, "BIGINT")), "__headrace_op", "upsert",
      ttl.copy(repeats = false))
  }

  /** Touches four keys of each kind with 5 for longer than their time to live, and makes one of them 9 then. */
  private def counted(input: MemoryStream[Touch]): Seq[Row] = {
    val (checkpoint, keys) = (newCheckpoint(), Seq[String]("a", "b", "c", null))
    def at(second: Int, value: Int, keys: Seq[String]): Unit =
      input.addData(for (tag <- tags; key <- keys) yield Touch(tag, key, value, SparkTesting.at(second)))
    // The first of two rows stays, while others come and go at the second place.
    def two(second: Int, values: Int*): Unit =
      input.addData(values.map(value => Touch("two", "k", value, SparkTesting.at(second))))
    val before = running(counts(input, TimeToLive(10000, repeats = false)), checkpoint) { query =>
      at(100, 5, keys)
      two(100, 500)
      query.rows()
    }
    before ++ running(counts(input, TimeToLive(10000, repeats = true)), checkpoint) { query =>
      for (second <- 105 to 113 by 4) {
        at(second, 5, keys)
        two(second, 100 + second)
        query.rows()
      }
      at(114, 9, Seq("a"))
      two(114, 900, 900)
      query.rows()
    }
  }

  private def shown(rows: Seq[Row]): Map[(String, Int), Long] =
    rows.groupBy(row => (row.getString(0), row.getInt(1))).collect {
      case (key, versions) if !versions.last.getAs[Boolean]("__headrace_deleted") => key -> versions.last.getLong(2)
    }

  test("upserts are repeated of keys that are touched, and of no other") {
    val input = MemoryStream[(String, Int, Byte, Timestamp)](spark)
    val rows = input.toDF().toDF("k", "v", "__headrace_op", "ts").withWatermark("ts", "0 seconds").select("k", "v", "__headrace_op")
    running(Materialize.rows(rows, asList("k"), "__headrace_op", TimeToLive(10000, repeats = true))) { query =>
      input.addData(("a", 1, 1: Byte, at(100)), ("b", 2, 1: Byte, at(100)))
      query.rows()
      for (second <- 101 to 112) {
        input.addData(("a", 1, 0: Byte, at(second)), ("none", 1, 0: Byte, at(second)))
        query.rows()
      }
      // b was forgotten: its deletion says nothing.
      input.addData(("a", 1, -1: Byte, at(113)), ("b", 2, -1: Byte, at(113)))
      assertEquals(query.rows().drop(2).map(_.mkString(",")), Seq("a,1,false", "a,1,false", "a,1,true"))
    }
  }
}

object TimeToLiveSuite {
  final case class Touch(tag: String, k: String, v: Int, ts: Timestamp)

  /** One key's row in the state of an operator. */
  private final class Key(ttl: TimeToLive) {
    private var (exists, touchedMs, wakeMs) = (false, 0L, 0L)

    def isAlive: Boolean = exists

    /** A batch: its rows come before its timers, as Spark has it. Returns whether the key's row was emitted. */
    def batch(nowMs: Long, touched: Boolean, changed: Boolean): Boolean = {
      var emitted = changed
      if (touched) {
        if (!exists) {
          emitted = true
          wakeMs = ttl.firstWake(nowMs)
        } else emitted |= ttl.isStale(touchedMs, nowMs)
        exists = true
        touchedMs = nowMs
      }
      while (exists && wakeMs <= nowMs) {
        val look = ttl.look(wakeMs, touchedMs, nowMs)
        exists = !look.isOver
        emitted |= look.repeats
        touchedMs = look.touchedMs
        wakeMs = look.wakeMs
      }
      emitted
    }
  }
}
