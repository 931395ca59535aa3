package io.headrace.spark

import java.time.ZoneOffset

import scala.util.Random

import org.apache.spark.sql.catalyst.util.TimestampFormatter

import SparkTesting._

/** What is written is what Java's formatter writes, though it does not write it. */
class TimeTextSuite extends PatientSuite {
  test("times are written as Java's formatter writes them") {
    val random = new Random(7)
    val edges = for (ms <- Seq(0L, -1L, 1L, -62135596800000L, -62135596800001L, 253402300799999L, 253402300800000L, 951782400000L); off <- Seq(-1L, 0L, 1L, 999L))
      yield ms * 1000 + off
    val some = Seq.fill(3000)(random.nextLong() % 300000000000000000L) ++ Seq.fill(3000)(random.nextLong() % 2000000000000000L)
    for ((layout, divider) <- Seq("sql" -> "' '", "iso8601" -> "'T'"); zone <- Seq("", "Z")) {
      val formats = Seq("SSS", "SSSSSS").map { fraction =>
        TimestampFormatter(s"yyyy-MM-dd${divider}HH:mm:ss.$fraction" + (if (zone.isEmpty) "" else "'Z'"), ZoneOffset.UTC, isParsing = false)
      }
      val named = TimeText.Layout.named(org.apache.spark.unsafe.types.UTF8String.fromString(layout))
      for (micros <- edges ++ some ++ some.map(Math.floorDiv(_, 1000L) * 1000)) {
        val Seq(short, long) = formats.map(_.format(micros))
        assertEquals(TimeText.written(micros, named, precise = false, zone).toString, short)
        assertEquals(TimeText.written(micros, named, precise = true, zone).toString, if (micros % 1000 == 0) short else long)
      }
    }
  }

  test("headrace_time_text takes a column, and NULL") {
    val rows = spark.sql(
      "SELECT headrace_time_text(t, 'iso8601', true, 'Z'), headrace_time_text(NULL, 'sql', false, '') " +
        "FROM VALUES (TIMESTAMP'2024-02-29 12:34:56.789012'), (NULL) AS x(t)"
    )
    assertEquals(rows.collect().map(row => Option(row.getString(0))).toSeq, Seq(Some("2024-02-29T12:34:56.789012Z"), None))
    assert(rows.collect().forall(_.isNullAt(1)))
  }
}
