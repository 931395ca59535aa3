package io.headrace.spark

import java.sql.Timestamp
import java.util.Arrays.asList

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.headrace.Listeners
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, lit}

import SparkTesting._

class StepRowsSuite extends PatientSuite {
  import spark.implicits._

  /** What was counted since the last call, after the listeners have heard of it. */
  private def counted(run: Running): JsonNode = {
    Listeners.drain(spark.sparkContext)
    new ObjectMapper().readTree(StepRows.take(run.query))
  }

  test("the rows of a condition are summed over the batches since the last report") {
    val stream = MemoryStream[Int](spark)
    running(stream.toDF().where(col("value") > 3 && col("value") =!= lit(5)).select(col("value") + 1)) { run =>
      stream.addData(1, 2, 3, 4, 5, 6)
      run.rows()
      stream.addData(0, 7)
      run.rows()
      val first = counted(run)
      assertEquals(first.path("outputRows").asLong, 3L)
      assertEquals(first.path("steps").size, 1)
      assertEquals(first.at("/steps/0/step").asText, "WHERE (value > 3) AND (NOT (value = 5))")
      assertEquals(first.at("/steps/0/input_rows").asLong, 8L)
      assertEquals(first.at("/steps/0/output_rows").asLong, 3L)
      assertEquals(counted(run).path("steps").size, 0)
      stream.addData(0)
      run.rows()
      assertEquals(counted(run).at("/steps/0/output_rows").asLong, 0L)
    }
  }

  test("a join is a step with the rows of both sides, also if a batch without rows follows") {
    val left, right = MemoryStream[(String, Timestamp)](spark)
    def timed(df: DataFrame, key: String) = df.toDF(key, "__headrace_rowtime").withWatermark("__headrace_rowtime", "10 seconds")
    val joined = IntervalJoin.join(timed(left.toDF(), "a"), timed(right.toDF(), "b"), asList("a"), asList("b"), -1000, 1000, null, "inner")
    running(joined) { run =>
      left.addData(("x", at(1)), ("y", at(1)))
      right.addData(("z", at(1)))
      assertEquals(run.rows().size, 0)
      // The steps before it leave out rows without a key.
      val step = counted(run).path("steps").elements().asScala.toSeq.last
      assertEquals(step.path("step").asText, "ChangelogJoin")
      assertEquals(step.path("input_rows").asLong, 3L)
      assertEquals(step.path("output_rows").asLong, 0L)
    }
  }
}
