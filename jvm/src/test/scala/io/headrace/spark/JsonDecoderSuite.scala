package io.headrace.spark

import java.nio.charset.StandardCharsets.{UTF_16LE, UTF_8}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.unsafe.types.UTF8String

class JsonDecoderSuite extends PatientSuite {
  private val spelled = mutable.Set.empty[(String, String)]

  private def decoded(ddl: String, text: Array[Byte]): Either[String, Any] = {
    val kind = CatalystSqlParser.parseDataType(ddl)
    val row: InternalRow = new JsonDecoder(kind, TimeText.Layout.Either, (field, column) => spelled += field -> column).decode(text)
    if (row.isNullAt(1)) Right(CatalystTypeConverters.convertToScala(row.get(0, kind), kind))
    else Left(row.getUTF8String(1).toString)
  }

  private def decoded(ddl: String, text: String): Either[String, Any] = decoded(ddl, text.getBytes(UTF_8))

  /** The one column of an object. */
  private def column(kind: String, value: String): Either[String, Any] =
    decoded(s"STRUCT<c: $kind>", s"""{"c":$value}""").map { case row: org.apache.spark.sql.Row => row.get(0) }

  for (text <- Seq(
      """{"id":11}{"id":12}""", """{"id":1} x""", """{'id':1}""", """{id:1}""", """{"id":01}""", """{"id":NaN}""", """{"id":1,}""",
      """{"id":1/* one */}""", """{"id":1""", "{\"id\":1,\"x\":\"a\nb\"}", "", " ", "id=1", """{"id":+1}""", """{"id":.5}"""
    ))
    test(s"no record: $text")(assert(decoded("STRUCT<id: BIGINT>", text).isLeft))

  test("what follows the record is named with its place") {
    assertEquals(decoded("STRUCT<id: BIGINT>", """{"id":11}{"id":12}"""), Left("more follows the JSON value, at byte 9"))
    assert(decoded("STRUCT<id: BIGINT>", """{"id":1} x""").left.exists(_.startsWith("it is not valid JSON at byte")))
  }

  test("bytes that are not UTF-8 are no record, wherever they stand") {
    val field = """{"c":"""".getBytes(UTF_8)
    val end = """"}""".getBytes(UTF_8)
    for (bytes <- Seq(Array(0xe9), Array(0xc3, 0x28), Array(0xff)); name <- Seq("c", "other"))
      assert(decoded(s"STRUCT<$name: STRING>", field ++ bytes.map(_.toByte) ++ end).isLeft, s"${bytes.toSeq} $name")
    assert(decoded("STRUCT<c: STRING>", """{"c":"x"}""".getBytes(UTF_16LE)).isLeft)
  }

  for ((kind, value, expected) <- Seq[(String, String, Any)](
      ("STRING", "0.10", "0.10"), ("STRING", "1e400", "1e400"), ("STRING", "12345678901234567890123", "12345678901234567890123"),
      ("STRING", "-0", "-0"), ("STRING", "true", "true"), ("STRING", "null", null), ("STRING", "\"a\\u00e9\"", "aé"),
      ("STRING", """{"b": [1.0, "é"] }""", """{"b": [1.0, "é"] }"""), ("STRING", "[ 1 ]", "[ 1 ]"),
      ("BIGINT", "-9223372036854775808", Long.MinValue), ("INT", "7", 7), ("TINYINT", "-128", -128.toByte),
      ("DOUBLE", "1e2", 100.0), ("DOUBLE", "7", 7.0), ("DOUBLE", "\"Infinity\"", Double.PositiveInfinity), ("FLOAT", "0.1", 0.1f),
      ("DECIMAL(5, 2)", "1.005", new java.math.BigDecimal("1.01")), ("DECIMAL(5, 2)", "\"1.10\"", new java.math.BigDecimal("1.10")),
      ("DECIMAL(5, 2)", "1e-1000000000", new java.math.BigDecimal("0.00")),
      ("BOOLEAN", "false", false), ("ARRAY<INT>", "[1,null]", Seq(1, null)), ("MAP<STRING, INT>", """{"k":1}""", Map("k" -> 1)),
      ("DATE", "\"2019-12-26\"", java.sql.Date.valueOf("2019-12-26"))
    ))
    test(s"$kind reads $value")(assertEquals(column(kind, value), Right(expected)))

  for ((kind, value, reason) <- Seq(
      ("BIGINT", "\"12\"", "column c expects BIGINT, found the string \"12\""),
      ("INT", "1.0", "column c expects INTEGER, found the number 1.0"),
      ("INT", "2147483648", "column c expects INTEGER, found the number 2147483648"),
      ("BIGINT", "9223372036854775808", "column c expects BIGINT, found the number 9223372036854775808"),
      ("BOOLEAN", "\"true\"", "column c expects BOOLEAN, found the string \"true\""),
      ("DOUBLE", "1e400", "column c expects DOUBLE, found the number 1e400"),
      ("FLOAT", "1e39", "column c expects FLOAT, found the number 1e39"),
      ("DOUBLE", "\"1\"", "column c expects DOUBLE, found the string \"1\""),
      ("DECIMAL(5, 2)", "1000", "column c expects DECIMAL(5, 2), found the number 1000"),
      ("DECIMAL(5, 2)", "999.995", "column c expects DECIMAL(5, 2), found the number 999.995"),
      ("DECIMAL(5, 2)", "1e1000000000", "column c expects DECIMAL(5, 2), found the number 1e1000000000"),
      ("TIMESTAMP", "17", "column c expects TIMESTAMP, written yyyy-MM-dd HH:mm:ss, found the number 17"),
      ("TIMESTAMP", "\"10:00:00\"", "column c expects TIMESTAMP, written yyyy-MM-dd HH:mm:ss, found the string \"10:00:00\""),
      ("BINARY", "\"a*\"", "column c expects BYTES in base64, found the string \"a*\""),
      ("ARRAY<INT>", "{}", "column c expects ARRAY, found an object"),
      ("ARRAY<INT>", "[\"1\"]", "column c expects INTEGER, found the string \"1\""),
      ("STRUCT<x: INT>", """{"x":true}""", "column c.x expects INTEGER, found true"),
      ("MAP<STRING, INT>", """{"k":1,"k":2}""", "the field c.k stands twice")
    ))
    test(s"$kind refuses $value")(assertEquals(column(kind, value), Left(reason)))

  test("a declared field that stands twice is refused, another is passed over") {
    assertEquals(decoded("STRUCT<id: INT>", """{"id":1,"id":2}"""), Left("the field id stands twice"))
    assert(decoded("STRUCT<id: INT>", """{"x":1,"x":2,"id":3}""").isRight)
  }

  test("a record that is no object is refused with what it is") {
    assertEquals(decoded("STRUCT<id: INT>", "[1]"), Left("expected a JSON object, found an array"))
    assertEquals(decoded("STRUCT<id: INT>", "null"), Right(null))
  }

  test("a value need not be an object") {
    assertEquals(decoded("BIGINT", "5"), Right(5L))
    assertEquals(decoded("STRING", "\"x\""), Right("x"))
    assertEquals(decoded("BIGINT", "5 6"), Left("more follows the JSON value, at byte 2"))
  }

  test("what an object or array is, is cut from the text also behind a byte order mark and long multi-byte text") {
    val mark = Array(0xef, 0xbb, 0xbf).map(_.toByte)
    val text = s"""{"x":"${"é" * 10000}","c":{"y": 1}}""".getBytes(UTF_8)
    for (bytes <- Seq(text, mark ++ text))
      assertEquals(decoded("STRUCT<c: STRING>", bytes).map(_.toString), Right("""[{"y": 1}]"""))
  }

  test("a field that differs from a column in case only is not read, and told of") {
    spelled.clear()
    val kind = "STRUCT<userid: BIGINT, S: STRUCT<X: INT>>"
    assertEquals(decoded(kind, """{"UserId":1,"S":{"x":2},"other":3}""").map(_.toString), Right("[null,[null]]"))
    assertEquals(spelled.toSet, Set("UserId" -> "userid", "x" -> "X"))
  }

  test("a nesting that no record has is a bad record and no failure") {
    val deep = s"""{"x":${"[" * 100000}"""
    assert(decoded("STRUCT<id: INT>", deep).left.exists(_.contains("beyond a limit")))
  }

  for ((text, micros) <- Seq(
      ("2011-12-03 10:15:30", 1322907330000000L), ("2011-12-03T10:15:30.5Z", 1322907330500000L), ("1970-01-01 00:00", 0L),
      ("2011-12-03 10:15:30.123456789", 1322907330123456L), ("2011-12-03T10:15:30+02:00", 1322900130000000L),
      ("2011-12-03T10:15:30-0130", 1322912730000000L), ("2011-12-03T10:15:30+02", 1322900130000000L), ("0001-01-01 00:00:00", -62135596800000000L),
      ("2024-02-29 23:59:59.999999", 1709251199999999L)
    ))
    test(s"the time $text")(assertEquals(TimeText.micros(text, TimeText.Layout.Either), Some(micros)))

  for (text <- Seq(
      "10:00:00", "now", "epoch", "today", "2024", "2024-01", "2024-01-01", " 2024-01-01 00:00:00", "2024-01-01 00:00:00 ", "T10:00",
      "2024-01-01 00:00:00 Europe/Berlin", "2024-01-01 00:00:00UTC", "2024-1-1 00:00:00", "2024-02-30 00:00:00", "2023-02-29 00:00:00",
      "2024-01-01 24:00:00", "2024-01-01 00:60:00", "2024-01-01 00:00:60", "2024-01-01 00:00:00.", "2024-01-01 00:00:00.1234567890",
      "2024-01-01 00:00:00,5", "2024-01-01t00:00:00", "2024-01-01 00:00:00+19:00", "2024-01-01 00:00:00+1", "+2024-01-01 00:00:00",
      "12024-01-01 00:00:00", "0000-01-01 00:00:00", "２０２４-01-01 00:00:00"
    ))
    test(s"no time: $text")(assertEquals(TimeText.micros(text, TimeText.Layout.Either), None))

  test("a layout that is asked for is the only one") {
    val (sql, iso) = (UTF8String.fromString("sql"), UTF8String.fromString("iso8601"))
    for ((name, text, reads) <- Seq((sql, "2024-01-01 00:00:00", true), (sql, "2024-01-01T00:00:00", false),
        (iso, "2024-01-01 00:00:00", false), (iso, "2024-01-01T00:00:00Z", true)))
      assertEquals(TimeText.micros(text, TimeText.Layout.named(name)).isDefined, reads, s"$name $text")
  }

  for (text <- Seq("2024", "2024-1-1", "2024-01-01 ", "2024-13-01", "2024-01-01 00:00:00", "2024/01/01"))
    test(s"no day: $text")(assertEquals(TimeText.days(text), None))
}
