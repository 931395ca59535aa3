package io.headrace.spark

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.util.AccumulatorV2
import sun.reflect.ReflectionFactory

import SparkTesting._

class RowCountsSuite extends PatientSuite {
  import spark.implicits._

  /** As a task has it before it has read the fields. */
  private def unread[T](kind: Class[T]): T = {
    val constructor = classOf[Object].getConstructor()
    kind.cast(ReflectionFactory.getReflectionFactory.newConstructorForSerialization(kind, constructor).newInstance())
  }

  test("what a task registers before it has read it counts nothing yet: the executor's heartbeat may ask") {
    Seq[Class[_ <: AccumulatorV2[_, _]]](classOf[RowCounts], classOf[PartitionMaxima]).foreach { kind =>
      assert(unread(kind).isZero, kind.getSimpleName)
    }
  }

  Seq("true", "false").foreach { generated =>
    test(s"the bytes of keys and values are counted once, whatever is read of them (generated code: $generated)") {
      def bytes(text: String): Array[Byte] = Option(text).map(_.getBytes).orNull
      val before = spark.conf.get("spark.sql.codegen.wholeStage")
      val stream = MemoryStream[(Array[Byte], Array[Byte])](spark)
      spark.conf.set("spark.sql.codegen.wholeStage", generated)
      spark.conf.set("spark.sql.codegen.factoryMode", if (generated == "true") "FALLBACK" else "NO_CODEGEN")
      val measured = stream.toDF().toDF("key", "value").selectExpr("key", "headrace_measured(value, key, 'input_bytes') AS value")
      try
        running(measured.where("value IS NOT NULL").selectExpr("CAST(value AS STRING)", "length(value) AS size")) { run =>
          def counted(): JsonNode = new ObjectMapper().readTree(RowCounts.take(run.query, Long.MaxValue)).path("counts")
          stream.addData((bytes("ab"), bytes("xyz")), (bytes("c"), null), (null, bytes("12345")))
          assertEquals(run.rows().size, 2)
          assertEquals(counted().path("input_bytes").asLong, 11L)
          assertEquals(counted().size, 0)
          stream.addData((null, bytes("1")))
          run.rows()
          assertEquals(counted().path("input_bytes").asLong, 1L)
        }
      finally {
        spark.conf.set("spark.sql.codegen.wholeStage", before)
        spark.conf.unset("spark.sql.codegen.factoryMode")
      }
    }
  }
}
