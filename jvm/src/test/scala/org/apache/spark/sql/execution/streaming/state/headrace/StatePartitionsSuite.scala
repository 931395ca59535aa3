package org.apache.spark.sql.execution.streaming.state
package headrace

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.util.Arrays
import java.util.Arrays.asList

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf

import io.headrace.spark._
import io.headrace.spark.SparkTesting._

class StatePartitionsSuite extends PatientSuite {
  import spark.implicits._
  import StatePartitionsSuite._

  for ((operator, query) <- amount(few = Operators.take(3), all = Operators))
    test(s"$operator: a query whose state is moved from 2 to 5 and to 3 partitions has the results of one whose state is not") {
      val random = new Random(operator.hashCode)
      val third = amount(few = 1, all = 2)
      val batches = Seq.tabulate(3 * third) { batch =>
        Seq.fill(60)(Entry(s"k${random.nextInt(12)}", at(100 + batch * 10 + random.nextInt(10)), random.nextInt(9)))
      } :+ Seq(Entry("k0", at(10000), 0))
      val expected = results(query, batches, Map.empty)._1
      val (received, checkpoint) = results(query, batches, Map(third -> 5, 2 * third -> 3))
      assert(expected.nonEmpty)
      assertEquals(received.map(_.toString).sorted, expected.map(_.toString).sorted)
      // Spark has gone on with the state as it was written, in other batches.
      assertEquals(StatePartitions.of(checkpoint.toString, newest(checkpoint, "offsets")), 3)
      for (partition <- 0 until 5) assertEquals(Files.exists(checkpoint.resolve(s"state/0/$partition")), partition < 3)
    }

  test("a change that was interrupted is finished, or is done again") {
    val checkpoint = newCheckpoint()
    val input = MemoryStream[Entry](spark)
    val query = Operators.toMap.apply("a windowed count")
    def next(second: Double): Seq[Row] = running(query(input.toDF()), checkpoint) { running =>
      input.addData((0 until 20).map(key => Entry(s"k$key", at(second), 1)))
      running.rows()
    }
    withPartitions(2)(next(100))
    val batch = settled(checkpoint)
    // Half of a new state, that nobody needs.
    Files.createDirectories(checkpoint.resolve("state.written/0/0"))
    StatePartitions.change(spark, checkpoint.toString, batch, 4)
    // As if the process had ended right after the new state was complete.
    Files.move(checkpoint.resolve("state"), checkpoint.resolve("state.for.3"))
    StatePartitions.change(spark, checkpoint.toString, batch, 3)
    assertEquals(children(checkpoint).filter(_.startsWith("state")), Set("state"))
    assertEquals(StatePartitions.of(checkpoint.toString, batch), 3)
  }

  /** Rows of a query over `batches`, and its checkpoint. `changes` has the number of partitions that the state gets before a batch. */
  private def results(query: DataFrame => DataFrame, batches: Seq[Seq[Entry]], changes: Map[Int, Int]): (Seq[Row], Path) = {
    val (input, checkpoint) = (MemoryStream[Entry](spark), newCheckpoint())
    val stops = (changes.keys.toSeq :+ batches.size).sorted
    val rows = (0 +: stops).zip(stops).flatMap { case (from, until) =>
      changes.get(from).foreach(StatePartitions.change(spark, checkpoint.toString, settled(checkpoint), _))
      withPartitions(2) {
        running(query(input.toDF()), checkpoint) { running =>
          batches.slice(from, until).foreach { batch =>
            input.addData(batch)
            running.rows()
          }
          running.came
        }
      }
    }
    (rows, checkpoint)
  }

  private def withPartitions[T](partitions: Int)(body: => T): T = {
    val before = spark.conf.get(SQLConf.SHUFFLE_PARTITIONS.key)
    spark.conf.set(SQLConf.SHUFFLE_PARTITIONS.key, partitions.toString)
    try body
    finally spark.conf.set(SQLConf.SHUFFLE_PARTITIONS.key, before)
  }
}

object StatePartitionsSuite {
  final case class Entry(k: String, ts: Timestamp, v: Int)

  private val Keys = asList("k")
  private val Largest = Arrays.asList(Boolean.box(true), Boolean.box(false))
  private val NullsLast = Arrays.asList(Boolean.box(false), Boolean.box(false))

  private val Calls = asList(
    AggregateCall("total", "SUM", asList("v"), false, "BIGINT"),
    AggregateCall("n", "COUNT", asList(), false, "BIGINT"),
    AggregateCall("values", "COUNT", asList("v"), true, "BIGINT")
  )

  /** Queries of every operator that keeps state. The rows of a join's sides are so long that a key has several chunks of them. */
  private val Operators: Seq[(String, DataFrame => DataFrame)] = Seq(
    "a windowed count" -> { df =>
      timed(df).groupBy(window(col("ts"), "20 seconds"), col("k")).agg(count("*"), sum("v"))
    },
    "versions of rows, and an aggregate of their changes with a time to live" -> { df =>
      val rows = df.withWatermark("ts", "0 seconds")
      val changes = Normalize.rows(rows.withColumn("id", col("v")), asList("k", "id"), null, null, false, TimeToLive.Forever)
      ChangelogAggregate.aggregate(changes, Keys, Calls, "__headrace_op", "upsert", TimeToLive(20000, repeats = false))
    },
    "a join of changes" -> { df =>
      val rows = df.withColumn("text", lit("x" * 2000))
      val (left, right) = (rows.where("v < 6").toDF("k", "a", "x", "text"), rows.where("v > 6").toDF("id", "b", "y", "note"))
      ChangelogJoin.join(left, right, Keys, asList("id"), null, null, "x < y", "inner", null, null, TimeToLive.Forever).drop("text", "note")
    },
    "a windowed count without a key" -> { df =>
      timed(df).groupBy(window(col("ts"), "20 seconds")).agg(count("*"), sum("v"))
    },
    "a count without a window" -> { df => ChangelogAggregate.aggregate(df.drop("ts"), Keys, Calls, null, "signed", TimeToLive.Forever) },
    "sessions" -> { df =>
      timed(df).groupBy(session_window(col("ts"), "4 seconds"), col("k")).agg(count("*"), sum("v"))
    },
    "results in the order of time" -> { df =>
      val calls = asList(OverCall("n", "COUNT", asList(), "BIGINT", "range", 30000), OverCall("total", "SUM", asList("v"), "BIGINT", "range", -1))
      OverAggregate.over(timed(df).withColumn("key", col("k")).select("k", "ts", "v", "key"), "ts", asList("key"), calls, 0)
    },
    "a join of rows whose times are close" -> { df =>
      val rows = timed(df.withColumnRenamed("ts", "__headrace_rowtime"), "__headrace_rowtime")
      val (left, right) = (rows.where("v < 3"), rows.where("v > 6").withColumnsRenamed(java.util.Map.of("k", "id", "v", "w")))
      IntervalJoin.join(left, right, Keys, asList("id"), -3000, 3000, null, "full")
    },
    "a temporal join" -> { df =>
      val (left, right) = (timed(df).where("v < 6"), timed(df).where("v > 6").toDF("id", "since", "w").withColumn("gone", lit(false)))
      TemporalJoin.join(left, right, Keys, asList("id"), "ts", "since", "version", "gone", "left", 0)
    },
    "the largest rows" -> { df =>
      val rows = df.withColumn("op", lit(1).cast("tinyint"))
      TopN.rank(rows, "row_number", Keys, asList("v", "ts"), Largest, NullsLast, 1, "op", "signed", "n", null, TimeToLive.Forever, false)
    },
    "matches of a pattern" -> { df =>
      val low = PatternVariable("LOW", 1, -1, true, "now < 5")
      val high = PatternVariable("HIGH", 1, 1, true, "next >= 5")
      val read = asList(
        Navigation("now", "last", "LOW", "v", 0), Navigation("next", "last", "HIGH", "v", 0), Navigation("from", "first", "LOW", "ts", 0))
      MatchRecognize.recognize(
        timed(df), "ts", Keys, asList("v"), asList(Boolean.box(false)), asList(Boolean.box(false)),
        asList(low, high), asList(), asList(), read, false, "past_last_row", null, 0, 0)
    }
  )

  private def timed(df: DataFrame, time: String = "ts"): DataFrame = df.withWatermark(time, "5 seconds")

  private def children(folder: Path): Set[String] = folder.toFile.list().toSet

  private def newest(checkpoint: Path, log: String): Long = children(checkpoint.resolve(log)).filterNot(_.startsWith(".")).map(_.toLong).max

  /** The last finished batch, of a checkpoint without the batch that a stopped query had begun: as a savepoint is. */
  private def settled(checkpoint: Path): Long = {
    val batch = newest(checkpoint, "commits")
    for (planned <- batch + 1 to newest(checkpoint, "offsets")) Files.delete(checkpoint.resolve(s"offsets/$planned"))
    batch
  }
}
