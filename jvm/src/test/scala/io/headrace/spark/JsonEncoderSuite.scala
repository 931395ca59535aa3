package io.headrace.spark

import java.time.ZoneOffset

import scala.util.Random

import org.apache.spark.sql.catalyst.util.TimestampFormatter

import SparkTesting._

/** What is written is what Spark and Java write, though they do not write it. */
class JsonEncoderSuite extends PatientSuite {
  private val sqlTimes = "yyyy-MM-dd HH:mm:ss.SSSSSS'Z'"

  private def assertSame(columns: String, from: String = "VALUES (1) AS t(n)"): Unit = {
    val options = s"map('ignoreNullFields', 'false', 'timestampFormat', \"$sqlTimes\")"
    val rows = spark.sql(
      s"SELECT headrace_to_json(row, \"$sqlTimes\") AS ours, CAST(to_json(row, $options) AS BINARY) AS theirs " +
        s"FROM (SELECT named_struct($columns) AS row FROM $from)"
    )
    rows.collect().foreach { row =>
      assertEquals(new String(row.getAs[Array[Byte]](0), "UTF-8"), new String(row.getAs[Array[Byte]](1), "UTF-8"))
      assertEquals(row.getAs[Array[Byte]](0).toSeq, row.getAs[Array[Byte]](1).toSeq)
    }
  }

  for ((name, values) <- Seq(
      "BOOLEAN" -> Seq("true", "NULL"),
      "TINYINT" -> Seq("-128", "127"), "SMALLINT" -> Seq("-32768"), "INT" -> Seq("2147483647"), "BIGINT" -> Seq("-9223372036854775808"),
      "FLOAT" -> Seq("'0.1'", "'NaN'", "'-Infinity'", "'1e30'"), "DOUBLE" -> Seq("'-0.0'", "'1e300'", "'Infinity'", "'NaN'", "'0.001'", "'123456789'"),
      "DECIMAL(38, 18)" -> Seq("'0.000000000000000001'", "'-12345678901234567890.5'", "0"), "DECIMAL(5, 0)" -> Seq("100"),
      "STRING" -> Seq("'é \"quoted\" \\\\ \\u0001 \\u2028 \\t / \\u007f 😀'", "''", "repeat('xyz é', 5000)", "X'61ff62'", "X'c3'"),
      "BINARY" -> Seq("X''", "X'00ff10'", "repeat('a', 300)"),
      "DATE" -> Seq("'2024-02-29'", "'0001-01-01'", "'-0005-03-01'", "'+12345-06-07'"),
      "TIMESTAMP" -> Seq("'2024-02-29 12:34:56.789012'", "'0001-01-01 00:00:00'", "'+12345-06-07 01:02:03'", "'1969-12-31 23:59:59.999999'")
    ); value <- values)
    test(s"to_json of $name: $value")(assertSame(s"'c', CAST($value AS $name), 'n', CAST(NULL AS $name)"))

  test("to_json of values within values, and of names that must be quoted") {
    assertSame(
      "'a \"b\" é', array(1, NULL, 3), 'm', map('k\"1', array(named_struct('x', 1.5D, 'y', NULL)), 'k2', NULL), " +
        "'s', named_struct('t', TIMESTAMP'2024-01-01 00:00:00', 'd', DATE'2024-01-01', 'e', array()), 'v', NULL, 'empty', map()"
    )
    assertSame("'id', id, 'text', concat('x', id), 'half', id / 2", from = "range(1000)")
  }

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
