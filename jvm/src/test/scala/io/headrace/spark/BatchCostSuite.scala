package io.headrace.spark

import org.apache.spark.metrics.source.CodegenMetrics
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import SparkTesting._

/** What a batch does not do, though Spark would. */
class BatchCostSuite extends munit.FunSuite {
  import spark.implicits._

  test("the time of a batch is in no generated code, and is right in each") {
    val stream = MemoryStream[Long](spark)
    val late = stream.toDF().selectExpr("value > headrace_of_batch(unix_millis(current_timestamp()) + 60000) AS late")
    running(late) { query =>
      def compiledFor(offsetMs: Long): Long = {
        val before = CodegenMetrics.METRIC_COMPILATION_TIME.getCount
        stream.addData(System.currentTimeMillis() + offsetMs)
        query.rows()
        CodegenMetrics.METRIC_COMPILATION_TIME.getCount - before
      }
      compiledFor(0)
      assertEquals(Seq(120000L, 0L, 120000L).map(compiledFor), Seq(0L, 0L, 0L))
      assertEquals(query.rows().map(_.getBoolean(0)), Seq(false, true, false, true))
    }
  }
}
