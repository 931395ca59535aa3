package io.headrace.spark

import java.sql.Timestamp
import java.util.{List => JavaList, Map => JavaMap}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, window}

import SparkTesting._

class CurrentWatermarkSuite extends PatientSuite {
  import spark.implicits._

  private final class Source {
    private val stream = MemoryStream[(String, Int, Timestamp)](spark)
    val rows: DataFrame = PartitionWatermark
      .assign(
        stream.toDF().toDF("topic", "partition", "ts"), "s", "ts", "topic", "partition", JavaMap.of("t", JavaList.of[Integer](0)), false,
        1000, 0, "last", null, 0, 0, 0, null, 0)
      .withColumn("watermark", expr("headrace_current_watermark()"))

    def add(seconds: Double*): Unit = stream.addData(seconds.map(second => ("t", 0, at(second))))
  }

  /** The watermark of each row, by its time. */
  private def watermarks(query: Running): Map[Double, Option[Double]] =
    query.rows().map(row => seconds(row.getTimestamp(0)) -> Option(row.getTimestamp(1)).map(seconds)).toMap

  private def seconds(time: Timestamp): Double = time.getTime / 1000.0

  test("a batch has the watermark of the rows before it, and the same one when it runs again") {
    val source = new Source
    val times = source.rows.select("ts", "watermark")
    val checkpoint = newCheckpoint()
    var fails = false
    running(times, checkpoint, afterBatch = () => if (fails) throw new IllegalStateException("the sink")) { query =>
      source.add(1, 5, 10)
      assertEquals(watermarks(query), Map(1.0 -> None, 5.0 -> None, 10.0 -> None))
      source.add(3, 20)
      assertEquals(watermarks(query).removedAll(Seq(1.0, 5.0, 10.0)), Map(3.0 -> Some(8.999), 20.0 -> Some(8.999)))
      fails = true
      source.add(4, 30)
      intercept[Exception](query.rows())
      assertEquals(query.came.last.getTimestamp(1), at(18.999))
    }
    running(times, checkpoint) { query =>
      assertEquals(watermarks(query), Map(4.0 -> Some(18.999), 30.0 -> Some(18.999)))
      source.add(12)
      assertEquals(watermarks(query)(12.0), Some(28.999))
    }
  }

  test("a row that the filter of late rows keeps is kept by the window, and a row that an equal time precedes") {
    val source = new Source
    val counts = source.rows
      .where("watermark IS NULL OR ts > watermark")
      .groupBy(window(col("ts"), "10 seconds"))
      .count()
      .select("window.start", "count")
    running(counts) { query =>
      source.add(1, 5)
      query.rows()
      source.add(4, 3.999) // the watermark is at 4 seconds: rows at 4 may still come
      query.rows()
      source.add(30)
      assertEquals(query.rows().map(row => seconds(row.getTimestamp(0)) -> row.getLong(1)), Seq(0.0 -> 3L))
    }
  }

  test("behind joins a row is late when the join drops it") {
    val (left, right) = (new Source, new Source)
    val joined = left.rows
      .select(col("ts").as("a"), col("watermark"))
      .join(right.rows.select(col("ts").as("b")), expr("a = b"))
      .select("a", "watermark")
    running(joined) { query =>
      for (source <- Seq(left, right)) source.add(1, 10)
      query.rows()
      for (source <- Seq(left, right)) source.add(40)
      val watermark = watermarks(query)(40.0)
      assert(watermark.forall(_ <= 8.999), watermark)
      left.add(50)
      right.add(50)
      assert(watermarks(query)(50.0).exists(Set(8.999, 38.999)), watermarks(query))
    }
  }
}
