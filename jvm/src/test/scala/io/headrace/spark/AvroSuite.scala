package io.headrace.spark

import java.net.InetSocketAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.atomic.AtomicInteger

import com.fasterxml.jackson.databind.ObjectMapper
import com.sun.net.httpserver.HttpServer
import org.apache.avro.Schema
import org.apache.avro.generic.{GenericData, GenericDatumWriter}
import org.apache.avro.io.EncoderFactory
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.types.DataType

class AvroSuite extends PatientSuite {
  private def parsed(text: String): Schema = new Schema.Parser().parse(text)
  private def kind(ddl: String): DataType = CatalystSqlParser.parseDataType(ddl)

  private def decoded(ddl: String, schemas: Map[Int, Schema], record: Array[Byte]): Either[String, Any] = {
    val row = new AvroDecoder(kind(ddl), schemas.get, (_, _) => ()).decode(record)
    if (row.isNullAt(1)) Right(CatalystTypeConverters.convertToScala(row.get(0, kind(ddl)), kind(ddl)))
    else Left(row.getUTF8String(1).toString)
  }

  /** As Avro's own library writes it. */
  private def written(id: Int, schema: Schema, value: Any): Array[Byte] = {
    val out = new java.io.ByteArrayOutputStream
    out.write(java.nio.ByteBuffer.allocate(5).put(0.toByte).putInt(id).array)
    val encoder = EncoderFactory.get.directBinaryEncoder(out, null)
    new GenericDatumWriter[Any](schema).write(value, encoder)
    encoder.flush()
    out.toByteArray
  }

  private def record(fields: String*): String =
    s"""{"type":"record","name":"r","fields":[${fields.map(_.replace('\'', '"')).mkString(",")}]}"""

  private def field(name: String, kind: String): String = s"{'name':'$name','type':$kind}"

  private val one = parsed(record(field("id", "'long'"), field("who", "'string'")))

  private def ann(schema: Schema): GenericData.Record = {
    val record = new GenericData.Record(schema)
    record.put("id", 7L)
    record.put("who", "Ann")
    record
  }

  test("a default that does not fit its type does not matter to a record") {
    val text = record("{'name':'id','type':'long','default':''}", "{'name':'who','type':['null','string'],'default':'nobody'}")
    intercept[org.apache.avro.AvroTypeException](parsed(text))
    val schema = AvroSchemas.parser().parse(text)
    assertEquals(decoded("STRUCT<id: BIGINT, who: STRING>", Map(1 -> schema), written(1, schema, ann(schema))), Right(Row(7L, "Ann")))
  }

  test("a record has the columns of the reader, whatever its writer had") {
    val two = parsed(record(field("who", "['null','string']"), field("more", "{'type':'map','values':'r2_'}").replace("'r2_'", "'double'"),
      field("id", "'int'")))
    val other = new GenericData.Record(two)
    other.put("id", 8)
    other.put("more", java.util.Map.of("a", 1.5))
    val schemas = Map(1 -> one, 2 -> two)
    val ddl = "STRUCT<id: BIGINT, who: STRING, added: INT>"
    assertEquals(decoded(ddl, schemas, written(1, one, ann(one))), Right(Row(7L, "Ann", null)))
    assertEquals(decoded(ddl, schemas, written(2, two, other)), Right(Row(8L, null, null)))
    assertEquals(decoded("STRUCT<id: DOUBLE>", schemas, written(2, two, other)), Right(Row(8.0)))
  }

  for ((name, bytes, reason) <- Seq[(String, Array[Byte], String)](
      ("JSON", "{\"id\":1}".getBytes(UTF_8), "expected a zero byte and the id of a schema before the Avro data, found 8 bytes starting with 7b"),
      ("nothing", Array.empty[Byte], "expected a zero byte and the id of a schema before the Avro data, found nothing"),
      ("an unknown schema", Array[Byte](0, 0, 0, 0, 77, 2), "the registry knows no schema of the id 77"),
      ("half a record", Array[Byte](0, 0, 0, 0, 1, 14, 6, 65), "it ends in the midst of a value"),
      ("a text longer than all memory", Array[Byte](0, 0, 0, 0, 1, 14, -2, -1, -1, -1, 15), "it ends in the midst of a value"),
      ("a number longer than any", Array[Byte](0, 0, 0, 0, 1) ++ Array.fill[Byte](12)(-1), "a number is longer than 64 bits"),
      ("text that is none", Array[Byte](0, 0, 0, 0, 1, 14, 2, -1), "column who is not UTF-8"),
      ("more than a record", Array[Byte](0, 0, 0, 0, 1, 14, 2, 65, 0), "1 bytes follow what is of the schema 1")
    ))
    test(s"no record: $name")(assertEquals(decoded("STRUCT<id: BIGINT, who: STRING>", Map(1 -> one), bytes), Left(reason)))

  test("a column whose type the writer's does not widen to is said with both") {
    val ddl = "STRUCT<id: INT, who: STRING>"
    val reason = "it was written with the schema 1: column id expects INTEGER, found long"
    assertEquals(decoded(ddl, Map(1 -> one), written(1, one, ann(one))), Left(reason))
  }

  test("claims of items and depth without bytes are refused") {
    val nulls = parsed(record(field("a", "{'type':'array','items':'null'}"), field("id", "'int'")))
    val claim = Array[Byte](0, 0, 0, 0, 1, -2, -1, -1, -1, -1, -1, -1, -1, 127)
    assert(decoded("STRUCT<id: INT>", Map(1 -> nulls), claim).left.exists(_.contains("more than")))
    val chain = parsed(record(field("next", "['null','r']"), field("id", "'int'")))
    val deep = Array[Byte](0, 0, 0, 0, 1) ++ Array.fill[Byte](100000)(2)
    assert(decoded("STRUCT<id: INT>", Map(1 -> chain), deep).left.exists(_.contains("nested deeper")))
  }

  private val all = Seq(
    ("BOOLEAN", "'boolean'", Seq(true)), ("TINYINT", "'int'", Seq((-128).toByte)), ("SMALLINT", "'int'", Seq(300.toShort)),
    ("INT", "'int'", Seq(Int.MinValue, Int.MaxValue)), ("BIGINT", "'long'", Seq(Long.MinValue, Long.MaxValue, 0L)),
    ("FLOAT", "'float'", Seq(1.5f)), ("DOUBLE", "'double'", Seq(-0.1, Double.PositiveInfinity)), ("STRING", "'string'", Seq("", "aé")),
    ("STRING", "{'type':'enum','name':'e','symbols':['A','B']}", Seq("B")),
    ("DECIMAL(9, 2)", "{'type':'bytes','logicalType':'decimal','precision':9,'scale':2}",
      Seq(new java.math.BigDecimal("-1234567.89"), new java.math.BigDecimal("0.00"))),
    ("DECIMAL(9, 2)", "{'type':'fixed','name':'f','size':8,'logicalType':'decimal','precision':9,'scale':2}", Seq(new java.math.BigDecimal("-1.50"))),
    ("DATE", "{'type':'int','logicalType':'date'}", Seq(java.sql.Date.valueOf("2019-12-26"))),
    ("TIMESTAMP", "{'type':'long','logicalType':'timestamp-micros'}", Seq(new java.sql.Timestamp(1322907330123L))),
    ("TIMESTAMP", "{'type':'long','logicalType':'local-timestamp-millis'}", Seq(new java.sql.Timestamp(-1L))),
    ("ARRAY<INT>", "{'type':'array','items':['null','int']}", Seq(Seq(1, null), Seq())),
    ("MAP<STRING, INT>", "{'type':'map','values':'int'}", Seq(Map("k" -> 1))),
    ("STRUCT<x: INT, y: STRING>", "{'type':'record','name':'n','fields':[{'name':'y','type':['string','null']},{'name':'x','type':'int'}]}",
      Seq(Row(1, "z"), Row(2, null)))
  )

  for ((ddl, avro, values) <- all)
    test(s"$ddl is written as $avro and read back") {
      for ((schema, given) <- Seq((avro, values), (s"['null',$avro]", null +: values))) {
        val row = kind(s"STRUCT<c: $ddl>")
        val encoder = new AvroEncoder(row, parsed(record(field("c", schema))), 9)
        for (value <- given) {
          val bytes = encoder.encode(CatalystTypeConverters.convertToCatalyst(CatalystTypeConverters.createToCatalystConverter(row)(Row(value))))
          assertEquals(decoded(s"STRUCT<c: $ddl>", Map(9 -> parsed(record(field("c", schema)))), bytes), Right(Row(value)))
        }
      }
    }

  test("what the schema has no place for is no record") {
    val encoder = new AvroEncoder(kind("STRUCT<c: INT>"), parsed(record(field("c", "'int'"))), 1)
    intercept[Unwritable](encoder.encode(CatalystTypeConverters.createToCatalystConverter(kind("STRUCT<c: INT>"))(Row(null))))
  }

  test("a registry is asked once for a schema with all that it refers to, and not at all when it is down") {
    val asked = new AtomicInteger()
    val mapper = new ObjectMapper()
    val money = """{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}"""
    val price = """{"type":"record","name":"Price","fields":[{"name":"net","type":"Money"}]}"""
    val references = java.util.List.of(java.util.Map.of("name", "Money", "subject", "money/1", "version", 3))
    val answers = Map(
      "/api/schemas/ids/5" -> java.util.Map.of("schema", price, "references", references),
      "/api/subjects/money%2F1/versions/3" -> java.util.Map.of("schema", money)
    )
    val server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0)
    server.createContext("/", exchange => {
      val allowed = exchange.getRequestHeaders.getFirst("Authorization") == "Basic dXNlcjpodW50ZXIy"
      val answer = answers.get(exchange.getRequestURI.getRawPath)
      asked.incrementAndGet()
      val body = answer.fold("{}".getBytes(UTF_8))(mapper.writeValueAsBytes)
      exchange.sendResponseHeaders(if (!allowed) 401 else if (answer.isEmpty) 404 else 200, body.length.toLong)
      exchange.getResponseBody.write(body)
      exchange.close()
    })
    server.start()
    val url = s"http://127.0.0.1:${server.getAddress.getPort}/api"
    val basic = Map("uris" -> url, "auth" -> "basic", "username" -> "user", "password" -> "hunter2")
    val registry = new SchemaRegistry("sr", basic)
    assertEquals(registry.schema(6), None)
    val name = registry.schema(5).map(_.getField("net").schema.getFullName)
    assertEquals(name, Some("Money"))
    assertEquals(asked.get, 3)
    val refused = intercept[RegistryAway](new SchemaRegistry("sr", basic + ("password" -> "wrong")).schema(5)).getMessage
    assert(!refused.contains("wrong"))
    server.stop(0)
    assert(registry.schema(5).isDefined)
    assertEquals(registry.schema(6), None)
    intercept[RegistryAway](registry.schema(7))
  }
}
