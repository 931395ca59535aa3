package io.headrace.spark

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.headrace.SparkInternals

import SparkTesting._

class PollingSuite extends PatientSuite {
  import spark.implicits._

  private val settings = Map(
    "spark.sql.streaming.pollingDelay" -> "10ms",
    "spark.sql.streaming.noDataProgressEventInterval" -> "500"
  )

  test("a query asks its sources less often while it has no rows, and as before from its next batch on") {
    settings.foreach { case (name, value) => spark.conf.set(name, value) }
    try {
      val stream = MemoryStream[Int](spark)
      running(stream.toDF()) { run =>
        def delayMs: Long = SparkInternals.execution(run.query).map(SparkInternals.pollingDelayMs).get
        assert(run.eventually(delayMs == 100L))
        assert(run.eventually {
          stream.addData(1)
          delayMs == 10L
        })
      }
    } finally settings.keys.foreach(spark.conf.unset)
  }
}
