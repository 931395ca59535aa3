package io.headrace.spark

import java.nio.file.Files
import java.sql.Timestamp
import java.time.Instant
import java.util.{List => JavaList, Map => JavaMap, UUID}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, current_timestamp, session_window, window}
import org.apache.spark.sql.streaming.Trigger

import SparkTesting._

class PartitionWatermarkSuite extends PatientSuite {
  import spark.implicits._

  private def numbers(partitions: Int): JavaList[Integer] = (0 until partitions).map(Int.box).asJava

  /** A stream whose rows say themselves which partition they come from. */
  private final class Source(
      partitions: Int = 2,
      delayMs: Long = 0,
      idleMs: Long = 0,
      allIdle: String = "last",
      deleted: String = null,
      advanceMs: Long = 10000,
      offsetMs: Long = 0,
      windowMs: Long = 10000,
      clockStepMs: Long = 0
  ) {
    val stream: MemoryStream[(String, Int, Timestamp, String)] = MemoryStream[(String, Int, Timestamp, String)](spark)
    val raw: DataFrame = stream.toDF().toDF("topic", "partition", "ts", "v").withColumn("gone", col("v") === "gone")
    val df: DataFrame = PartitionWatermark.assign(
      raw, "s", "ts", "topic", "partition", JavaMap.of("t", numbers(partitions)), false, delayMs, idleMs, allIdle, deleted,
      windowMs, advanceMs, offsetMs, late = null, clockStepMs)

    /** The counts of the same stream, as if its partitions could fall idle. */
    def withIdleTimeout(ms: Long, allIdle: String): DataFrame = counted(
      PartitionWatermark.assign(
        raw, "s", "ts", "topic", "partition", JavaMap.of("t", numbers(partitions)), false, delayMs, ms, allIdle, null, 10000, 10000, 0, null, 0))

    def add(partition: Int, seconds: Double*): Unit =
      stream.addData(seconds.map(second => ("t", partition, at(second), s"p$partition")))

    def counts: DataFrame = counted(df)

    private def counted(rows: DataFrame): DataFrame =
      rows.groupBy(window(col("ts"), "10 seconds", s"$advanceMs milliseconds", s"$offsetMs milliseconds")).count().select("window.start", "count")
  }

  private def counted(query: Running): Map[Double, Long] =
    query.rows().map(row => row.getTimestamp(0).getTime / 1000.0 -> row.getLong(1)).toMap

  test("the columns stay as they were, and the event time carries its delay") {
    val source = new Source(delayMs = 1500)
    assertEquals(source.df.columns.toSeq, source.raw.columns.toSeq)
    assertEquals(source.df.schema.map(_.dataType), source.raw.schema.map(_.dataType))
    assertEquals(source.df.schema("ts").metadata.getLong("spark.watermarkDelayMs"), 1500L)
  }

  test("a partition that lags loses no row") {
    val source = new Source()
    running(source.counts) { query =>
      source.add(0, 1, 5001)
      source.add(1, 2)
      assertEquals(query.watermark(), 2.0)
      source.add(1, 3, 12)
      source.add(1, 30)
      assertEquals(query.watermark(), 30.0)
      assertEquals(counted(query), Map(0.0 -> 3L, 10.0 -> 1L))
      assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 0L)
    }
  }

  test("a filter above the source does not hold the watermark back") {
    val source = new Source()
    val filtered = source.df.where("v = 'p0'").groupBy(window(col("ts"), "10 seconds")).count().select("window.start", "count")
    running(filtered) { query =>
      source.add(0, 1)
      source.add(1, 1)
      source.add(0, 20)
      source.add(1, 20)
      assertEquals(query.watermark(), 20.0)
      assertEquals(counted(query), Map(0.0 -> 1L))
    }
  }

  test("rows without a time and rows before 1970 leave the watermark right") {
    val source = new Source(partitions = 1)
    running(source.counts) { query =>
      source.add(0, -100, -50)
      source.stream.addData(("t", 0, null, "p0"))
      assertEquals(query.watermark(), -50.0)
      source.add(0, 25)
      assertEquals(query.watermark(), 25.0)
    }
  }

  test("a function for each batch may set a job group of its own") {
    val source = new Source()
    val ownGroup = () => spark.sparkContext.setJobGroup("mine", "not the query's")
    running(source.counts, beforeBatch = ownGroup) { query =>
      for (second <- Seq(1, 15, 31)) {
        source.add(0, second)
        source.add(1, second)
        assertEquals(query.watermark(), second.toDouble)
      }
      assertEquals(counted(query), Map(0.0 -> 2L, 10.0 -> 2L))
    }
  }

  test("a partition that falls idle is left out while no batch runs") {
    val source = new Source(idleMs = 700)
    running(source.counts) { query =>
      source.add(0, 1)
      source.add(1, 1)
      query.rows()
      // The offsets of this source do not name partitions: it is idle as a whole, and then holds.
      Thread.sleep(1500)
      assertEquals(query.watermark(), 1.0)
      source.add(0, 50)
      assertEquals(query.watermark(), 1.0)
    }
  }

  test("when all fall idle, the furthest of those that had a row last decides") {
    val source = new Source(idleMs = 500)
    running(source.counts) { query =>
      source.add(0, 1, 95)
      source.add(1, 2)
      assert(query.eventually(query.watermark() == 95.0))
      assertEquals(counted(query), Map(0.0 -> 2L))
    }
  }

  test("after a restart every partition is as far as it was") {
    val source = new Source()
    val checkpoint = newCheckpoint()
    running(source.counts, checkpoint) { query =>
      source.add(0, 1, 40)
      source.add(1, 25)
      assertEquals(query.watermark(), 25.0)
    }
    running(source.counts, checkpoint) { query =>
      source.add(1, 80)
      assertEquals(query.watermark(), 40.0)
      source.add(0, 90)
      assertEquals(query.watermark(), 80.0)
      assertEquals(counted(query), Map(20.0 -> 1L, 40.0 -> 1L))
    }
  }

  test("after a restart a partition can fall idle without a new row of any") {
    val checkpoint = newCheckpoint()
    val source = new Source()
    running(source.counts, checkpoint) { query =>
      source.add(1, 15)
      source.add(0, 1, 40)
      assertEquals(query.watermark(), 15.0)
    }
    val patient = source.withIdleTimeout(500, "last")
    assert(PartitionWatermark.resume(spark, checkpoint.toString))
    running(patient, checkpoint) { query => assert(query.eventually(counted(query) == Map(10.0 -> 1L))) }
  }

  test("a bounded run with flush lets everything out at its end") {
    val source = new Source(allIdle = "flush")
    source.add(0, 1, 40)
    source.add(1, 25)
    running(source.counts, trigger = Trigger.AvailableNow()) { query =>
      query.query.awaitTermination()
      assertEquals(counted(query), Map(0.0 -> 1L, 20.0 -> 1L, 40.0 -> 1L))
    }
  }

  test("a bounded run that was killed between its last row and the flush flushes when it is started again") {
    val source = new Source(allIdle = "flush")
    source.add(0, 1, 40)
    source.add(1, 25)
    val checkpoint = newCheckpoint()
    // Windows would come out in batch 0; sessions wait for the next.
    val sessions = source.df.groupBy(session_window(col("ts"), "10 seconds"), col("topic")).count().select("session_window.start", "count")
    def run(): Map[Double, Long] = running(sessions, checkpoint, Trigger.AvailableNow()) { query =>
      query.query.awaitTermination()
      counted(query)
    }
    assert(!PartitionWatermark.resume(spark, checkpoint.toString))
    assertEquals(run().size, 3)
    // Batch 0 read everything and batch 1 flushed: without the logs of batch 1 it has not begun.
    for (log <- Seq("offsets", "commits"); file <- Seq("1", ".1.crc"))
      Files.deleteIfExists(checkpoint.resolve(log).resolve(file))
    assertEquals(run(), Map.empty[Double, Long])
    assert(PartitionWatermark.resume(spark, checkpoint.toString))
    assertEquals(run(), Map(1.0 -> 1L, 25.0 -> 1L, 40.0 -> 1L))
    assert(!PartitionWatermark.resume(spark, checkpoint.toString))
  }

  test("a bounded run without flush leaves the open windows for the next run") {
    val source = new Source()
    source.add(0, 1, 40)
    source.add(1, 25)
    running(source.counts, trigger = Trigger.AvailableNow()) { query =>
      query.query.awaitTermination()
      assertEquals(counted(query), Map(0.0 -> 1L))
    }
  }

  test("flush under another trigger fails the query") {
    val source = new Source(allIdle = "flush")
    running(source.counts) { query =>
      source.add(0, 1)
      val error = intercept[Exception](query.rows())
      assert(error.getMessage.contains("expected the trigger availableNow"), error.getMessage)
    }
  }

  test("a running query that waits can be flushed before it is stopped") {
    val source = new Source()
    running(source.counts) { query =>
      source.add(0, 1, 40)
      source.add(1, 25)
      query.rows()
      assert(query.eventually(PartitionWatermark.flush(query.query)))
      assert(query.eventually(counted(query).size == 3))
    }
  }

  test("rows with a time equal to the greatest are not late for operators that compare times") {
    val source = new Source(partitions = 1)
    running(source.df.dropDuplicates("v", "ts").select("v", "ts")) { query =>
      for (second <- Seq(10, 10, 10)) {
        source.stream.addData(("t", 0, at(second), s"row ${query.rows().size}"))
        query.rows()
      }
      assertEquals(query.watermark(), 9.999)
      assertEquals(query.rows().map(_.getString(0)), Seq("row 0", "row 1", "row 2"))
    }
  }

  test("one source can be read twice in a query") {
    val source = new Source()
    val (a, b) = (source.df.as("a"), source.df.as("b"))
    val joined = a.join(b, col("a.v") === col("b.v") && col("a.ts") === col("b.ts")).select(col("a.v"))
    running(joined) { query =>
      source.add(0, 1, 2)
      source.add(1, 3)
      source.add(0, 30)
      source.add(1, 30)
      assertEquals(query.rows().size, 5)
      assertEquals(query.watermark(), 29.999)
    }
  }

  test("describe shows every partition while the query runs, and nothing is kept of it afterwards") {
    val source = new Source()
    val runId = running(source.counts) { query =>
      source.add(0, 5)
      source.add(1, 3)
      query.rows()
      source.add(0, 2)
      query.rows()
      val json = PartitionWatermark.describe(query.query.runId.toString)
      assert(json.startsWith("""{"active":true,"watermarkMs":3000,"""), json)
      assert(json.contains("""{"entity":"t","partition":1,"maxEventTimeMs":3000,"idle":false,"active":true}"""), json)
      query.query.runId
    }
    Thread.sleep(500)
    assertEquals(PartitionWatermark.describe(runId.toString), """{"active":false}""")
    assertEquals(PartitionWatermark.describe(UUID.randomUUID().toString), """{"active":false}""")
  }

  private def rowCounts(query: Running): String = RowCounts.take(query.query, query.query.lastProgress.batchId)

  test("every late row is counted, though they are one group, and every row without a time") {
    val source = new Source(partitions = 1)
    val checkpoint = newCheckpoint()
    running(source.counts, checkpoint) { query =>
      source.add(0, 5, 35)
      query.rows()
      source.add(0, Seq.fill(500)(7.0): _*)
      source.add(0, 29.9, 30)
      source.stream.addData(Seq.fill(3)(("t", 0, null.asInstanceOf[Timestamp], "no time")))
      query.rows()
      assertEquals(rowCounts(query), """{"counts":{"late_rows":501,"timeless_rows":3},"spellings":{}}""")
      assertEquals(rowCounts(query), """{"counts":{},"spellings":{}}""")
    }
    running(source.counts, checkpoint) { query =>
      source.add(0, 8)
      query.rows()
      assertEquals(rowCounts(query), """{"counts":{"late_rows":1},"spellings":{}}""")
      source.add(0, 50)
      assertEquals(counted(query), Map(30.0 -> 2L))
    }
  }

  test("a row that one of its windows still takes is not late") {
    val source = new Source(partitions = 1, advanceMs = 5000)
    running(source.counts) { query =>
      source.add(0, 1, 12)
      query.rows()
      source.add(0, 4, 6)
      query.rows()
      assertEquals(rowCounts(query), """{"counts":{"late_rows":1},"spellings":{}}""")
      source.add(0, 100)
      assertEquals(counted(query), Map(-5.0 -> 1L, 0.0 -> 1L, 5.0 -> 2L, 10.0 -> 1L))
    }
  }

  test("a row is late by the windows with their offset") {
    val source = new Source(partitions = 1, advanceMs = 5000, offsetMs = 2000)
    running(source.counts) { query =>
      source.add(0, 1, 14)
      query.rows()
      source.add(0, 6, 8)
      query.rows()
      assertEquals(rowCounts(query), """{"counts":{"late_rows":1},"spellings":{}}""")
      source.add(0, 100)
      assertEquals(counted(query), Map(-8.0 -> 1L, -3.0 -> 1L, 7.0 -> 2L, 12.0 -> 1L))
    }
  }

  test("a row is late for a session when its own would be over, to the microsecond") {
    val source = new Source(partitions = 1, advanceMs = 0, windowMs = 10000)
    val sessions = source.df.groupBy(session_window(col("ts"), "10 seconds"), col("topic")).count().select("session_window.start", "count")
    running(sessions) { query =>
      source.add(0, 30)
      query.rows()
      val over = Timestamp.from(Instant.ofEpochSecond(20))
      val open = Timestamp.from(Instant.ofEpochSecond(20).plusNanos(1000))
      source.stream.addData(("t", 0, over, "over"), ("t", 0, open, "open"), ("t", 0, at(5), "over"))
      query.rows()
      assertEquals(rowCounts(query), """{"counts":{"late_rows":2},"spellings":{}}""")
      source.add(0, 100)
      assertEquals(counted(query), Map(20.0 -> 2L))
    }
  }

  test("a window on the time of arrival closes by the clock, without another row") {
    val stream = MemoryStream[(String, Int, String)](spark)
    val raw = stream.toDF().toDF("topic", "partition", "v").withColumn("ts", current_timestamp())
    val df = PartitionWatermark.assign(
      raw, "s", "ts", "topic", "partition", JavaMap.of("t", numbers(2)), false, 0, 0, "last", null, 1000, 1000, 0, null, 1000)
    running(df.groupBy(window(col("ts"), "1 second")).count().select("window.start", "count")) { query =>
      for (round <- 1 to 2) {
        stream.addData(("t", 0, "a"), ("t", 0, "b"))
        assert(query.eventually(query.rows().size == round))
      }
      assertEquals(query.rows().map(_.getLong(1)), Seq(2L, 2L))
      assertEquals(rowCounts(query), """{"counts":{},"spellings":{}}""")
    }
  }

  test("a topic that comes while the query runs holds the watermark from then on, and loses no row") {
    val source = new Source(partitions = 1)
    val df = PartitionWatermark.assign(
      source.raw, "s", "ts", "topic", "partition", JavaMap.of("t", numbers(1)), true, 0, 0, "last", null, 10000, 10000, 0, null, 0)
    running(df.groupBy(window(col("ts"), "10 seconds")).count().select("window.start", "count")) { query =>
      source.add(0, 5)
      assertEquals(query.watermark(), 5.0)
      source.stream.addData(("t", 0, at(50), "a"), ("u", 3, at(6), "a"))
      assertEquals(query.watermark(), 6.0)
      source.stream.addData(("u", 3, at(7), "a"), ("u", 3, at(60), "a"))
      assertEquals(query.watermark(), 50.0)
      assertEquals(counted(query), Map(0.0 -> 3L))
      assertEquals(rowCounts(query), """{"counts":{},"spellings":{}}""")
    }
  }

  test("a deletion moves no watermark, and is no row without a time") {
    val source = new Source(partitions = 1, deleted = "gone")
    running(source.counts) { query =>
      source.add(0, 5)
      source.stream.addData(("t", 0, at(5000), "gone"), ("t", 0, null.asInstanceOf[Timestamp], "gone"))
      assertEquals(query.watermark(), 5.0)
      assertEquals(rowCounts(query), """{"counts":{},"spellings":{}}""")
    }
  }

  test("other watermarks are left to Spark") {
    val stream = MemoryStream[(String, Timestamp)](spark)
    val df = stream.toDF().toDF("k", "ts").withWatermark("ts", "0 seconds").groupBy(window(col("ts"), "10 seconds")).count()
    running(df) { query =>
      stream.addData(("a", at(1)), ("a", at(77)))
      assertEquals(query.watermark(), 77.0)
    }
  }

  test("columns of another type are refused with what was expected") {
    val source = new Source()
    val counts = JavaMap.of("t", numbers(1))
    val noTime = intercept[IllegalArgumentException](
      PartitionWatermark.assign(source.raw, "s", "v", "topic", "partition", counts, false, 0, 0, "last", null, 0, 0, 0, null, 0))
    assert(noTime.getMessage.contains("expected a TIMESTAMP column v for the watermark, found STRING"), noTime.getMessage)
    val noMode = intercept[IllegalArgumentException](
      PartitionWatermark.assign(source.raw, "s", "ts", "topic", "partition", counts, false, 0, 0, "wait", null, 0, 0, 0, null, 0))
    assert(noMode.getMessage.contains("found wait"), noMode.getMessage)
  }
}
