package io.headrace.spark

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.producer.MockProducer
import org.apache.kafka.common.serialization.ByteArraySerializer

import SparkTesting._

class KafkaOutputSuite extends PatientSuite {
  import spark.implicits._

  private def text(bytes: Array[Byte]): Option[String] = Option(bytes).map(new String(_))

  test("every row of every task goes through the one producer, and NULL stays NULL") {
    val producer = new MockProducer[Array[Byte], Array[Byte]](true, new ByteArraySerializer, new ByteArraySerializer)
    val rows = Seq((Some("a"), Some("1")), (None, Some("2")), (Some("b"), None))
    val records = rows.toDF("key", "value").repartition(3).selectExpr("CAST(key AS BINARY)", "CAST(value AS BINARY)")
    assertEquals(KafkaOutput.send(records, producer, "t"), 3L)
    val sent = producer.history().asScala.map(record => (text(record.key), text(record.value)))
    assertEquals(sent.toSet, rows.toSet)
    assertEquals(producer.history().asScala.map(_.topic).toSet, Set("t"))
  }

  test("headers go with their records") {
    val producer = new MockProducer[Array[Byte], Array[Byte]](true, new ByteArraySerializer, new ByteArraySerializer)
    val records = Seq("a", "b").toDF("k").selectExpr(
      "CAST(k AS BINARY) AS key", "CAST(NULL AS BINARY) AS value",
      "CASE WHEN k = 'a' THEN array(named_struct('key', 'h', 'value', CAST('1' AS BINARY))) END AS headers")
    assertEquals(KafkaOutput.send(records, producer, "t"), 2L)
    val sent = producer.history().asScala.map(record => text(record.key) -> record.headers().toArray.toSeq.map(h => h.key -> text(h.value)))
    assertEquals(sent.toMap, Map(Option("a") -> Seq("h" -> Option("1")), Option("b") -> Seq.empty))
  }

  test("a failure of a task is a failure of the batch") {
    val producer = new MockProducer[Array[Byte], Array[Byte]](true, new ByteArraySerializer, new ByteArraySerializer)
    producer.sendException = new IllegalStateException("no room")
    val records = Seq(("a", "1")).toDF("key", "value").selectExpr("CAST(key AS BINARY)", "CAST(value AS BINARY)")
    val error = intercept[Exception](KafkaOutput.send(records, producer, "t"))
    assert(error.getMessage.contains("no room"))
  }
}
