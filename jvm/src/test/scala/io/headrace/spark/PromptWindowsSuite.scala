package io.headrace.spark

import java.sql.Timestamp
import java.util.{List => JavaList, Map => JavaMap}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.headrace.PromptSaveExec
import org.apache.spark.sql.functions.{col, count, sum, window}

import SparkTesting._

class PromptWindowsSuite extends PatientSuite {
  import spark.implicits._

  private val seed = Random.nextInt()
  private val random = new Random(seed)

  /** A stream of (partition, time, key, value). */
  private final class Source(partitions: Int = 1, delayMs: Long = 0, idleMs: Long = 0) {
    val stream: MemoryStream[(Int, Timestamp, String, Int)] = MemoryStream[(Int, Timestamp, String, Int)](spark)
    val rows: DataFrame = PartitionWatermark.assign(
      stream.toDF().toDF("partition", "ts", "k", "v").selectExpr("'t' AS topic", "*"),
      "s", "ts", "topic", "partition", JavaMap.of("t", (0 until partitions).map(Int.box).asJava: JavaList[Integer]),
      false, delayMs, idleMs, "last", null, 10000, 10000, 0, null, 0)

    def add(seconds: Double*): Unit = stream.addData(seconds.map(second => (0, at(second), "k", 1)))
  }

  private def counts(rows: DataFrame, slide: String = "10 seconds"): DataFrame =
    rows.groupBy(window(col("ts"), "10 seconds", slide), col("k")).agg(count("*"), sum("v")).select("window.start", "k", "count(1)", "sum(v)")

  private def isPrompt(query: Running): Boolean =
    query.query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution.executedPlan.exists(_.isInstanceOf[PromptSaveExec])

  test("a window comes out in the batch that is past its end, and no batch without rows follows") {
    val source = new Source()
    running(counts(source.rows)) { query =>
      for ((second, windows) <- Seq(1 -> 0, 9 -> 0, 10 -> 1, 19 -> 1, 31 -> 2)) {
        source.add(second)
        assertEquals(query.rows().size, windows, s"after a row at $second")
      }
      assert(isPrompt(query))
      assertEquals(query.query.lastProgress.batchId, 4L)
    }
  }

  test("a row is late from the batch after the one that closed its window, and counted") {
    val source = new Source()
    running(counts(source.rows)) { query =>
      source.add(25, 3)
      assertEquals(query.rows().map(_.getLong(2)), Seq(1L))
      source.add(4, 24)
      assertEquals(query.rows().size, 1)
      assertEquals(RowCounts.take(query.query, query.query.lastProgress.batchId), """{"counts":{"late_rows":1},"spellings":{}}""")
      assertEquals(query.query.lastProgress.stateOperators.head.numRowsDroppedByWatermark, 1L)
    }
  }

  test("over random rows, batches and restarts every window is as in a batch, and the state's rows are counted right") {
    for (slide <- Seq("10 seconds", "2 seconds")) {
      val source = new Source(partitions = 2, delayMs = 5000)
      val checkpoint = newCheckpoint()
      val size = amount(few = 300, all = 900)
      val rows = Seq.tabulate(size) { number =>
        (number % 2, at(100 + number / 6.0 - random.nextInt(5000) / 1000.0), s"k${random.nextInt(5)}", random.nextInt(100))
      }
      val (cut, rest) = rows.splitAt(size / 2)
      val came = for (part <- Seq(cut, rest)) yield running(counts(source.rows, slide), checkpoint) { query =>
        pieces(part, random).foreach { batch =>
          source.stream.addData(batch)
          query.rows()
        }
        assert(isPrompt(query))
        if (part eq rest) source.stream.addData(Seq(0, 1).map(partition => (partition, at(5000), "end", 0)))
        val received = query.rows().map(_.toString)
        val ofEnd = if (slide == "2 seconds") 5 else 1
        val open = if (part eq cut) counts(cut.toDF("partition", "ts", "k", "v"), slide).count() - received.size else ofEnd
        assertEquals(query.query.lastProgress.stateOperators.head.numRowsTotal, open, s"seed $seed")
        received
      }
      val expected = counts(rows.toDF("partition", "ts", "k", "v"), slide).collect().map(_.toString).sorted.toSeq
      assertEquals(came.flatten.sorted, expected, s"seed $seed")
    }
  }

  test("a batch that runs again closes what it closed, though an idle source is not known to be idle any more") {
    val (busy, quiet) = (new Source(), new Source(idleMs = 300))
    val checkpoint = newCheckpoint()
    def query: DataFrame = counts(busy.rows.select("ts", "k", "v").union(quiet.rows.select("ts", "k", "v")))
    var dies = false
    def killed(): Unit = if (dies) throw new IllegalStateException("killed after its rows came out")
    val first = running(query, checkpoint, afterBatch = killed) { query =>
      quiet.add(1)
      busy.add(2)
      assert(query.eventually { busy.add(3); query.watermark() == 3.0 })
      assertEquals(query.came, Nil)
      dies = true
      busy.add(40)
      intercept[Exception](query.rows())
      query.came
    }
    assertEquals(first.size, 1)
    running(query, checkpoint)(query => assertEquals(query.rows(), first))
  }
}
