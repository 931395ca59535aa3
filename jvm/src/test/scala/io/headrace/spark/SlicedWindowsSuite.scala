package io.headrace.spark

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.{ExpandExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.HashAggregateExec
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}

import SparkTesting._

class SlicedWindowsSuite extends PatientSuite {
  import spark.implicits._

  private val seed = Random.nextInt()
  private val random = new Random(seed)

  private def some(count: Int): Seq[(Timestamp, String, Int)] = Seq.fill(count)(
    (at(random.nextInt(200000) / 1000.0), if (random.nextInt(9) == 0) null else s"k${random.nextInt(3)}", random.nextInt(100))
  )

  private def windows(rows: DataFrame, sql: String): DataFrame = {
    rows.toDF("ts", "k", "v").createOrReplaceTempView("rows")
    spark.sql(sql)
  }

  /** What `sql` gives over the same rows in a stream, cut into batches, and in a batch, where the rule does not apply. */
  private def same(sql: String)(check: SparkPlan => Unit): Unit = {
    val batches = Seq.fill(3)(some(50))
    val input = MemoryStream[(Timestamp, String, Int)](spark)
    val streamed = windows(input.toDF().toDF("ts", "k", "v").withWatermark("ts", "1000 seconds"), sql)
    running(streamed) { query =>
      batches.foreach { rows =>
        input.addData(rows)
        query.rows()
      }
      check(planned(query))
      input.addData((at(2000), "end", 0))
      val expected = windows(batches.flatten.toDF(), sql).collect().map(_.toString).sorted.toSeq
      assertEquals(query.rows().map(_.toString).sorted, expected, s"seed $seed")
    }
  }

  private def planned(query: Running): SparkPlan =
    query.query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution.executedPlan

  /** How many groupings there are before the rows of a window are repeated. */
  private def groupingsBelow(plan: SparkPlan): Int =
    plan.collect { case repeated: ExpandExec => repeated.collect { case grouped: HashAggregateExec => grouped }.size }.sum

  private val Hop = "window(ts, '10 seconds', '2 seconds')"

  test("rows are grouped by slice before they are repeated, and every window is as in a batch") {
    same(s"SELECT w.start, w.end, k, count(*), sum(v), avg(v + 1), min(v), max(v) FROM (SELECT $Hop AS w, * FROM rows) GROUP BY w, k") {
      plan => assertEquals(groupingsBelow(plan), 1)
    }
  }

  test("a condition on a row, a filter of an aggregate and computed keys stay what they are") {
    same(
      s"SELECT w.start, v % 7, count(*) FILTER (WHERE v > 50), max(v), avg(v) FROM (SELECT $Hop AS w, * FROM rows) WHERE k <> 'k1' GROUP BY v % 7, w"
    )(plan => assertEquals(groupingsBelow(plan), 1))
  }

  test("an aggregate or a key that needs the window is computed for each window") {
    same(s"SELECT w.start, max(unix_seconds(w.end) - v) FROM (SELECT $Hop AS w, * FROM rows) GROUP BY w")(plan =>
      assertEquals(groupingsBelow(plan), 0))
    same(s"SELECT w.start, hour(w.end), count(*) FROM (SELECT $Hop AS w, * FROM rows) GROUP BY w, hour(w.end)")(plan =>
      assertEquals(groupingsBelow(plan), 0))
  }

  test("a window that is no multiple of its advance, and one that does not overlap, are left unchanged") {
    for (window <- Seq("window(ts, '10 seconds', '4 seconds')", "window(ts, '10 seconds')"))
      same(s"SELECT w.start, k, sum(v) FROM (SELECT $window AS w, * FROM rows) GROUP BY w, k")(plan =>
        assertEquals(groupingsBelow(plan), 0))
  }
}
