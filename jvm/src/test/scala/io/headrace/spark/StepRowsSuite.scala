package io.headrace.spark

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, lit}

import SparkTesting._

class StepRowsSuite extends PatientSuite {
  import spark.implicits._

  private def described(text: String): JsonNode = new ObjectMapper().readTree(text)

  test("the rows of a condition are those of the last batch, before and after it") {
    val stream = MemoryStream[Int](spark)
    running(stream.toDF().where(col("value") > 3 && col("value") =!= lit(5)).select(col("value") + 1)) { run =>
      stream.addData(1, 2, 3, 4, 5, 6)
      run.rows()
      val first = described(StepRows.ofLastBatch(run.query))
      assertEquals(first.path("outputRows").asLong, 2L)
      assertEquals(first.path("steps").size, 1)
      assertEquals(first.at("/steps/0/input_rows").asLong, 6L)
      assertEquals(first.at("/steps/0/output_rows").asLong, 2L)
      assert(first.at("/steps/0/step").asText.startsWith("WHERE "), first.toString)
      stream.addData(0)
      run.rows()
      assertEquals(described(StepRows.ofLastBatch(run.query)).at("/steps/0/output_rows").asLong, 0L)
    }
  }
}
