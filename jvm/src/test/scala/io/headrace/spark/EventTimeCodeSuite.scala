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
    val layout = PartitionLayout.of(Seq("a", "b"))
    val rows = Seq(("a", 0, 12.5), ("b", 4, -90.25), ("a", 16382, 1.7e9))
    val codes = rows
      .map { case (topic, number, seconds) => (topic, number, at(seconds)) }
      .toDF("topic", "partition", "ts")
      .select(unix_micros(column(col("ts"), col("topic"), col("partition"), layout)))
      .as[Long]
      .collect()
      .toSeq
    assertEquals(codes, rows.map { case (topic, number, seconds) => encode(layout.code(topic, number), (seconds * 1000).toLong) })
    val missing = Seq(("a", 0, null.asInstanceOf[java.sql.Timestamp])).toDF("topic", "partition", "ts")
    assert(missing.select(column(col("ts"), col("topic"), col("partition"), layout)).head().isNullAt(0))
  }

  test("a topic or a partition without a code fails the query and says which") {
    import spark.implicits._
    val layout = PartitionLayout.of(Seq("a", "b"))
    for ((topic, number, said) <- Seq(("c", 0, "does not follow: c"), ("a", 20000, "found 20000"))) {
      val df = Seq((topic, number, at(1))).toDF("topic", "partition", "ts")
      val error = intercept[Exception](df.select(column(col("ts"), col("topic"), col("partition"), layout)).collect())
      assert(error.getMessage.contains(said), error.getMessage)
    }
  }

  test("every topic has codes of its own, however many partitions it gains") {
    val layout = PartitionLayout.of(Seq("b", "a", "c"))
    val codes = for (topic <- layout.entities; number <- Seq(0, 1, layout.partitionsPerEntity - 1)) yield layout.code(topic, number)
    assertEquals(codes.distinct.size, 9)
    assertEquals(codes.map(layout.decode), for (topic <- Vector("a", "b", "c"); number <- Seq(0, 1, 10921)) yield (topic, number))
  }

  test("more partitions than there are codes are refused with the numbers") {
    val error = intercept[IllegalArgumentException](SourceSettings("s", 0, 0, AllIdle.Hold, Map("t" -> Seq(32767))))
    assert(error.getMessage.contains("at most 32767 partitions in t"), error.getMessage)
    assert(error.getMessage.contains("found the number 32767"), error.getMessage)
  }

  test("settings survive the column's metadata") {
    val settings = SourceSettings("pageviews", 1500, 60000, AllIdle.Advance, Map("eu" -> Seq(0, 1, 2), "us" -> Seq(7, 12)))
    assertEquals(SourceSettings.fromMetadata(settings.toMetadata), Some(settings))
    assertEquals(SourceSettings.fromMetadata(org.apache.spark.sql.types.Metadata.empty), None)
  }
}
