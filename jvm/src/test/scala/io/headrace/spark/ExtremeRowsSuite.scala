package io.headrace.spark

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import SparkTesting._

class ExtremeRowsSuite extends PatientSuite {
  import spark.implicits._

  private val seed = Random.nextInt()
  private val random = new Random(seed)

  /** Few distinct values, so that there are ties; NULLs; and a window without any other value. */
  private def some(count: Int): Seq[(Timestamp, Option[Double], Seq[String])] = Seq.fill(count) {
    val time = random.nextInt(90)
    val value = Seq(Double.NaN, -0.0, 0.0, 1.5, -7.0)(random.nextInt(if (time < 50) 5 else 4))
    (at(time), Option.when(time >= 10 && random.nextInt(4) > 0)(value), Seq.fill(random.nextInt(3))(s"k${random.nextInt(9)}"))
  }

  private def view(rows: DataFrame): Unit = rows.toDF("ts", "v", "k").createOrReplaceTempView("rows")

  private def extremes(rows: DataFrame, function: String): DataFrame = {
    view(rows)
    spark.sql(
      s"SELECT w.end, inline(kept) FROM (SELECT w, headrace_rows_of_$function(v, struct(v, k, ts)) AS kept FROM " +
        "(SELECT window(ts, '10 seconds') AS w, * FROM rows) GROUP BY w)")
  }

  private def joined(rows: DataFrame, function: String): DataFrame = {
    view(rows)
    spark.sql(
      "WITH each AS (SELECT window(ts, '10 seconds') AS w, * FROM rows) SELECT a.w.end, a.v, a.k, a.ts FROM each AS a " +
        s"JOIN (SELECT w, $function(v) AS x FROM each GROUP BY w) AS m ON a.w = m.w AND a.v = m.x")
  }

  for (function <- Seq("max", "min"))
    test(s"the rows of the $function are those of the join with it, over batches and a restart") {
      val input = MemoryStream[(Timestamp, Option[Double], Seq[String])](spark)
      val (first, second) = (some(150), some(150))
      val checkpoint = newCheckpoint()
      val streamed = extremes(input.toDF().toDF("ts", "v", "k").withWatermark("ts", "1000 seconds"), function)
      val received = Seq(first, second, Seq((at(2000), None, Nil))).flatMap { part =>
        running(streamed, checkpoint) { query =>
          pieces(part, random).foreach { batch =>
            input.addData(batch)
            query.rows()
          }
          query.rows()
        }
      }
      val expected = joined((first ++ second).toDF(), function).collect()
      assert(expected.nonEmpty)
      assertEquals(received.map(_.toString).sorted, expected.map(_.toString).sorted.toSeq, s"seed $seed")
    }

  test("groups of windows that close together are compared in their batch, without state") {
    def counts(rows: DataFrame): DataFrame = {
      view(rows)
      spark.sql(
        "SELECT v, n, window_time(w) AS t, n AS x FROM " +
          "(SELECT window(ts, '20 seconds', '10 seconds') AS w, v, count(*) AS n FROM rows GROUP BY w, v)")
    }
    val input = MemoryStream[(Timestamp, Option[Double], Seq[String])](spark)
    val rows = some(300)
    val streamed = WindowExtremes.rows(counts(input.toDF().toDF("ts", "v", "k").withWatermark("ts", "1000 seconds")), "max", "x", "t")
    val received = running(streamed) { query =>
      pieces(rows, random).foreach { batch =>
        input.addData(batch)
        query.rows()
      }
      input.addData(Seq((at(2000), None, Nil)))
      val all = query.rows()
      assertEquals(query.query.lastProgress.stateOperators.length, 1)
      all
    }
    counts(rows.toDF()).createOrReplaceTempView("counts")
    val expected = spark.sql("SELECT v, n, t FROM counts JOIN (SELECT t AS u, max(n) AS m FROM counts GROUP BY t) ON t = u AND n = m").collect()
    assertEquals(received.map(_.toString).sorted, expected.map(_.toString).sorted.toSeq, s"seed $seed")
  }

  test("rows of equal texts are kept, and a group without a value has none") {
    val rows = spark.sql(
      "SELECT k, headrace_rows_of_max(v, struct(n)) AS kept FROM VALUES (1, 'a', 1), (1, 'b', 2), (1, 'b', 3), (2, NULL, 4) AS t(k, v, n) GROUP BY k")
    val kept = rows.collect().map(row => row.getInt(0) -> row.getSeq[org.apache.spark.sql.Row](1).map(_.getInt(0)).sorted).toMap
    assertEquals(kept, Map(1 -> Seq(2, 3), 2 -> Seq.empty[Int]))
  }
}
