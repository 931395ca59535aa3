package io.headrace.spark

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.util.{Arrays, Map => JavaMap}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, count, lit, pmod, session_window, sum, timestamp_micros, window}
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.types.MetadataBuilder

import SparkTesting._

/** Event times before 1970, where Spark's own watermark begins. */
class EarlyTimesSuite extends PatientSuite {
  import spark.implicits._

  private val seed = Random.nextInt()
  private val random = new Random(seed)

  /** A stream of (key, time, value) in one partition. */
  private final class Source(delayMs: Long = 0) {
    val stream: MemoryStream[(String, Timestamp, Int)] = MemoryStream[(String, Timestamp, Int)](spark)
    val rows: DataFrame = PartitionWatermark.assign(
      stream.toDF().toDF("k", "ts", "v").selectExpr("'t' AS topic", "0 AS partition", "*"),
      "s", "ts", "topic", "partition", JavaMap.of("t", Arrays.asList(Int.box(0))), false, delayMs, 0, "last", null, 10000, 10000, 0, null, 0)

    def add(seconds: Double*): Unit = stream.addData(seconds.map(second => ("k", at(second), 1)))
  }

  private def summed(rows: DataFrame, by: Column): DataFrame =
    rows.groupBy(by.as("w"), col("k")).agg(count("*"), sum("v")).select("w.start", "w.end", "k", "count(1)", "sum(v)")

  private val windows = Seq(
    "TUMBLE" -> window(col("ts"), "10 seconds"),
    "HOP" -> window(col("ts"), "10 seconds", "4 seconds"),
    "SESSION" -> session_window(col("ts"), "3 seconds"))

  /** Groups by CUMULATE, SIZE 10 and STEP BY 2 seconds, as the planner writes it. */
  private def cumulated(rows: DataFrame): DataFrame =
    rows
      .selectExpr("unix_micros(ts) AS micros", "k", "v")
      .selectExpr("explode(sequence(micros - pmod(micros, 2000000) + 2000000, micros - pmod(micros, 10000000) + 10000000, 2000000L)) AS end", "*")
      .select(
        timestamp_micros(col("micros") - pmod(col("micros"), lit(10000000))).as("start"),
        timestamp_micros(col("end") - 1).as("last", new MetadataBuilder().putLong(SparkInternals.DelayKey, 0).build()),
        col("k"),
        col("v"))
      .groupBy("start", "last", "k")
      .agg(count("*"), sum("v"))

  private val grouped = windows.map { case (kind, by) => kind -> (summed(_: DataFrame, by)) } :+ ("CUMULATE" -> (cumulated(_: DataFrame)))

  for ((kind, result) <- grouped)
    test(s"$kind before 1970, after it and across it is as in a batch, over batches and restarts") {
      val source = new Source(delayMs = 2000)
      val checkpoint = newCheckpoint()
      val rows = Seq.tabulate(120)(number => (s"k${number % 4}", at(-60 + number - random.nextInt(2000) / 1000.0), number))
      val parts = Seq(rows.take(10), rows.slice(10, 50), rows.drop(50))
      val came = parts.flatMap { part =>
        PartitionWatermark.resume(spark, checkpoint.toString)
        running(result(source.rows), checkpoint) { query =>
          part.grouped(amount(few = 40, all = 20)).foreach { batch =>
            source.stream.addData(batch)
            query.rows()
          }
          if (part eq parts.last) source.stream.addData(("end", at(5000), 0))
          query.rows()
          assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 0L, s"seed $seed")
          query.rows().map(_.toString)
        }
      }
      val expected = result(rows.toDF("k", "ts", "v")).collect().map(_.toString).sorted.toSeq
      assertEquals(came.sorted, expected, s"seed $seed")
    }

  private def starts(query: Running): Seq[Double] = query.rows().map(_.getTimestamp(0).getTime / 1000.0)

  for ((kind, by) <- windows.filter(_._1 != "HOP"))
    test(s"a row of a $kind that was closed before 1970 is late, and counted") {
      val source = new Source
      running(summed(source.rows, by)) { query =>
        source.add(-35)
        assertEquals(query.watermark(), -35.0)
        source.add(-20)
        query.rows()
        val closed = starts(query)
        assertEquals(closed.size, 1)
        source.add(-34)
        query.rows()
        source.add(-5)
        assertEquals(starts(query).size, 2)
        assertEquals(query.query.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum, 1L)
      }
    }

  test("while no partition was heard of there is no watermark, and nothing comes out") {
    val (heard, silent) = (new Source, new Source)
    val query = summed(heard.rows.select("k", "ts", "v").union(silent.rows.select("k", "ts", "v")), windows.head._2)
    running(query) { query =>
      heard.add(-35, 15)
      query.rows()
      assertEquals(query.watermark(), EventTimeCode.MinMs / 1000.0)
      assert(PartitionWatermark.describe(query.query.runId.toString).startsWith("""{"active":true,"watermarkMs":null,"""))
      silent.add(-32)
      heard.add(-31)
      silent.add(-10)
      assertEquals(starts(query), Seq(-40.0))
    }
  }

  test("a checkpoint whose watermark an earlier release has left at 0 goes on from 0") {
    val source = new Source
    val checkpoint = newCheckpoint()
    def run(seconds: Double*): Seq[Double] = {
      PartitionWatermark.resume(spark, checkpoint.toString)
      running(summed(source.rows, windows.head._2), checkpoint) { query =>
        seconds.foreach { second =>
          source.add(second)
          query.rows()
        }
        starts(query)
      }
    }
    assertEquals(run(-35, -34), Nil)
    for (log <- Seq("offsets", "commits"); file <- files(checkpoint.resolve(log)))
      rewrite(file, """"(batchWatermarkMs|nextBatchWatermarkMs)":-?\d+""", """"$1":0""")
    rewrite(checkpoint.resolve("watermark"), """"watermarkMs":-?\d+""", """"watermarkMs":0""")
    // What is before 1970 was late, and stays so.
    assertEquals(run(-33, 5, 15, 25), Seq(-40.0, 0.0, 10.0))
  }

  private def files(folder: Path): Seq[Path] =
    Files.list(folder).iterator.asScala.filter(_.getFileName.toString.forall(_.isDigit)).toSeq

  private def rewrite(file: Path, from: String, to: String): Unit = {
    Files.writeString(file, Files.readString(file).replaceAll(from, to))
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
  }

  test("a key lives as long before 1970 as after it") {
    val source = new Source
    val flags = Arrays.asList(Boolean.box(true))
    val greatest = TopN.rank(
      source.rows, "row_number", Arrays.asList("k"), Arrays.asList("v"), flags, flags, 1, null, "upsert", null, null,
      TimeToLive(10000, repeats = false), false)
    running(greatest.select("k", "v")) { query =>
      def add(key: String, second: Double, value: Int): Unit = {
        source.stream.addData((key, at(second), value))
        query.rows()
      }
      add("a", -50, 5)
      add("a", -45, 4)
      add("b", -41, 0)
      add("a", -37, 3)
      add("b", -20, 0)
      add("b", -19, 0)
      add("a", -18, 2)
      assertEquals(query.rows().filter(_.getString(0) == "a").map(_.getInt(1)), Seq(5, 2))
    }
  }
}
