package io.headrace.spark

import org.apache.spark.sql.functions.{col, unix_micros}

import SparkTesting._

class EventTimeCodeSuite extends PatientSuite {
  import EventTimeCode._

  private val times = Seq(-62135596800000L, -1L, 0L, 1L, 1700000000123L, 253402300799999L.min(MaxMs))

  test("a partition and a time come back as they were") {
    for (partition <- Seq(0, 1, 255, PartitionLimit - 1); time <- times) {
      val code = encode(partition, time)
      assertEquals((EventTimeCode.partition(code), ms(code)), (partition, time))
    }
  }

  test("codes of one partition order as their times do, before 1970 too") {
    val codes = times.map(encode(3, _))
    assertEquals(codes, codes.sorted)
  }

  test("absurd times are clamped and leave the partition alone") {
    for (time <- Seq(Long.MinValue, MinMs - 1, MaxMs + 1, Long.MaxValue)) {
      assertEquals(partition(encode(7, time)), 7)
      assertEquals(ms(encode(7, time)), clamp(time))
    }
  }

  test("the expression encodes as the function does, and NULL stays NULL") {
    import spark.implicits._
    val layout = ManyEntities.of("encodes")
    val rows = Seq(("a", 0, 12.5), ("b", 4, -90.25), ("a", 16382, 1.7e9))
    val timed = rows.map { case (topic, number, seconds) => (topic, number, at(seconds)) }.toDF("topic", "partition", "ts")
    def codes(many: Option[String]) =
      timed.select(unix_micros(column(col("ts"), col("topic"), col("partition"), many))).as[Long].collect().toSeq
    def ms(seconds: Double) = (seconds * 1000).toLong
    assertEquals(codes(Some("encodes")), rows.map { case (topic, number, seconds) => encode(layout.code(topic, number), ms(seconds)) })
    assertEquals(codes(None), rows.map { case (_, number, seconds) => encode(number, ms(seconds)) })
    val missing = Seq(("a", 0, null.asInstanceOf[java.sql.Timestamp])).toDF("topic", "partition", "ts")
    for (many <- Seq(None, Some("encodes")))
      assert(missing.select(column(col("ts"), col("topic"), col("partition"), many)).head().isNullAt(0))
    ManyEntities.forget("encodes")
  }

  test("a partition without a code fails the query and says which") {
    import spark.implicits._
    val df = Seq(("a", 40000, at(1))).toDF("topic", "partition", "ts")
    val error = intercept[Exception](df.select(column(col("ts"), col("topic"), col("partition"), None)).collect())
    assert(error.getMessage.contains("found 40000"), error.getMessage)
  }

  test("each partition of many topics has a code of its own when it is first seen, and keeps it") {
    val layout = new ManyEntities
    val places = Seq(("b", 0), ("a", 3), ("b", 1), ("later", 0))
    val codes = places.map { case (topic, number) => layout.code(topic, number) }
    assertEquals(codes, Seq(0, 1, 2, 3))
    assertEquals(places.map { case (topic, number) => layout.code(topic, number) }, codes)
    assertEquals(codes.map(layout.decode), places)
  }

  test("more partitions than there are codes are refused with the numbers") {
    val one = intercept[IllegalArgumentException](OneEntity("t").code("t", 32767))
    assert(one.getMessage.contains("at most 32767 partitions in t") && one.getMessage.contains("the number 32767"), one.getMessage)
    val many = new ManyEntities
    (0 until PartitionLimit).foreach(many.code("t", _))
    val error = intercept[IllegalArgumentException](many.code("u", 5))
    assert(error.getMessage.contains("found u with the partition 5"), error.getMessage)
  }

  test("settings survive the column's metadata") {
    val settings = SourceSettings("pageviews", 1500, 60000, AllIdle.Hold, Map("eu" -> Seq(0, 1, 2), "us" -> Seq(7, 12)), many = Some("m"))
    assertEquals(SourceSettings.fromMetadata(settings.toMetadata), Some(settings))
    assertEquals(SourceSettings.fromMetadata(org.apache.spark.sql.types.Metadata.empty), None)
  }
}
