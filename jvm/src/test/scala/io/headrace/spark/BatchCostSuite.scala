package io.headrace.spark

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.util.concurrent.atomic.AtomicInteger


import org.apache.hadoop.conf.Configuration
import org.apache.spark.metrics.source.CodegenMetrics
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.{DataStreamWriter, OutputMode}

import SparkTesting._

/** What a batch does not do, though Spark would. */
class BatchCostSuite extends PatientSuite {
  import spark.implicits._

  // Not how long it may take, but that it ends on a machine that does other things too.
  test("Hadoop's settings stay as they are without their origins, and take little room") {
    def written(settings: Configuration): Int = {
      val bytes = new ByteArrayOutputStream
      settings.write(new DataOutputStream(bytes))
      bytes.size
    }
    val whole = new Configuration()
    whole.set("fs.file.impl", "one")
    val light = new Configuration(whole)
    HadoopSettings.forgetOrigins(light)
    light.set("fs.other.impl", "two")
    whole.set("fs.other.impl", "two")
    val copy = new Configuration(light)
    whole.forEach(setting => assertEquals(copy.get(setting.getKey), whole.get(setting.getKey)))
    assertEquals(copy.size(), whole.size())
    assert(written(copy) < written(whole) * 2 / 3, s"${written(copy)} of ${written(whole)} bytes")
  }

  /** Counts the plans with an aggregate that the optimizer is given. */
  private final class Plannings extends Rule[LogicalPlan] {
    val count = new AtomicInteger
    override def apply(plan: LogicalPlan): LogicalPlan = {
      if (plan.exists(_.isInstanceOf[Aggregate])) count.incrementAndGet()
      plan
    }
  }

  private def plannings(write: DataStreamWriter[Row] => DataStreamWriter[Row]): Int = {
    val rule = new Plannings
    val stream = MemoryStream[Int](spark)
    val before = spark.experimental.extraOptimizations
    spark.experimental.extraOptimizations = Seq(rule)
    try {
      val counted = stream.toDF().groupBy("value").count().writeStream.outputMode(OutputMode.Update())
      val query = write(counted).option("checkpointLocation", newCheckpoint().toString).start()
      try {
        stream.addData(1)
        query.processAllAvailable()
      } finally query.stop()
      rule.count.get
    } finally spark.experimental.extraOptimizations = before
  }

  test("a batch for a sink of Spark's own is planned once") {
    assertEquals(plannings(_.format("noop")), 1)
  }

  test("a batch for foreachBatch is planned once") {
    assertEquals(plannings(_.foreachBatch((batch: DataFrame, _: Long) => { val _ = batch.collect() })), 1)
  }

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
