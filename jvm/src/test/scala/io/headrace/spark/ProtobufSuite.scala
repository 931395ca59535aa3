package io.headrace.spark

import java.net.InetSocketAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import com.google.protobuf.{ByteString, DynamicMessage, Int64Value, Timestamp, TimestampProto, WrappersProto}
import com.google.protobuf.DescriptorProtos._
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto.{Label, Type}
import com.google.protobuf.Descriptors.{Descriptor, FileDescriptor}
import com.sun.net.httpserver.HttpServer
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.types.StructType

class ProtobufSuite extends PatientSuite {
  private def kind(ddl: String): StructType = CatalystSqlParser.parseDataType(s"STRUCT<$ddl>").asInstanceOf[StructType]

  private def field(name: String, number: Int, kind: Type, label: Label = Label.LABEL_OPTIONAL): FieldDescriptorProto.Builder =
    FieldDescriptorProto.newBuilder().setName(name).setNumber(number).setType(kind).setLabel(label)

  private def of(name: String, number: Int, message: String, label: Label = Label.LABEL_OPTIONAL): FieldDescriptorProto.Builder =
    field(name, number, Type.TYPE_MESSAGE, label).setTypeName(message)

  private val repeated = Label.LABEL_REPEATED

  private def message(name: String, fields: FieldDescriptorProto.Builder*): DescriptorProto.Builder = {
    val made = DescriptorProto.newBuilder().setName(name)
    fields.foreach(made.addField)
    made
  }

  private def file(syntax: String, messages: DescriptorProto.Builder*): FileDescriptorProto = {
    val made = FileDescriptorProto.newBuilder().setName("t.proto").setPackage("t").setSyntax(syntax)
      .addDependency("google/protobuf/timestamp.proto").addDependency("google/protobuf/wrappers.proto")
    messages.foreach(made.addMessageType)
    made.build()
  }

  private def linked(file: FileDescriptorProto): FileDescriptor =
    FileDescriptor.buildFrom(file, Array(TimestampProto.getDescriptor, WrappersProto.getDescriptor))

  private val kinds = EnumDescriptorProto.newBuilder().setName("Kind")
    .addValue(EnumValueDescriptorProto.newBuilder().setName("PLAIN").setNumber(0))
    .addValue(EnumValueDescriptorProto.newBuilder().setName("ODD").setNumber(7))

  /** Every type, with and without presence, and what may be in what. */
  private val all: FileDescriptorProto = {
    val scalars = Seq(Type.TYPE_BOOL, Type.TYPE_INT32, Type.TYPE_SINT32, Type.TYPE_SFIXED32, Type.TYPE_UINT32, Type.TYPE_FIXED32,
      Type.TYPE_INT64, Type.TYPE_SINT64, Type.TYPE_SFIXED64, Type.TYPE_UINT64, Type.TYPE_FIXED64, Type.TYPE_FLOAT, Type.TYPE_DOUBLE,
      Type.TYPE_STRING, Type.TYPE_BYTES)
    val names = scalars.map(_.name.drop(5).toLowerCase)
    val plain = names.zip(scalars).zipWithIndex.map { case ((name, kind), index) => field(s"f_$name", index + 1, kind) }
    val lists = names.zip(scalars).zipWithIndex.map { case ((name, kind), index) => field(s"l_$name", index + 21, kind, repeated) }
    val made = message("All", plain ++ lists ++ Seq(
      field("f_enum", 41, Type.TYPE_ENUM).setTypeName("Kind"),
      of("f_time", 42, ".google.protobuf.Timestamp"),
      of("f_wrapped", 43, ".google.protobuf.Int64Value"),
      of("f_inner", 44, "Inner"),
      of("l_inner", 45, "Inner", repeated),
      of("m_inner", 46, "MInnerEntry", repeated),
      field("o_text", 47, Type.TYPE_STRING).setOneofIndex(0),
      of("o_inner", 48, "Inner").setOneofIndex(0),
      field("big_number", 5000, Type.TYPE_INT64),
      field("opt", 49, Type.TYPE_INT64).setProto3Optional(true).setOneofIndex(1),
      field("l_unpacked", 50, Type.TYPE_INT32, repeated).setOptions(FieldOptions.newBuilder().setPacked(false))
    ): _*)
    made.addOneofDecl(OneofDescriptorProto.newBuilder().setName("choice")).addOneofDecl(OneofDescriptorProto.newBuilder().setName("_opt"))
    made.addNestedType(message("MInnerEntry", field("key", 1, Type.TYPE_STRING), of("value", 2, "Inner"))
      .setOptions(MessageOptions.newBuilder().setMapEntry(true)))
    made.addNestedType(message("Inner", field("x", 1, Type.TYPE_INT32), field("y", 2, Type.TYPE_STRING)))
    made.addEnumType(kinds)
    file("proto3", made, message("Other", field("n", 1, Type.TYPE_INT64)))
  }
  private val allMessage = linked(all).findMessageTypeByName("All")
  private val ddl = "f_bool: BOOLEAN, f_int32: INT, f_sint32: SMALLINT, f_sfixed32: INT, f_uint32: BIGINT, f_fixed32: BIGINT, f_int64: BIGINT, " +
    "f_sint64: BIGINT, f_sfixed64: BIGINT, f_uint64: DECIMAL(20, 0), f_fixed64: BIGINT, f_float: FLOAT, f_double: DOUBLE, f_string: STRING, " +
    "f_bytes: BINARY, f_enum: STRING, f_time: TIMESTAMP, f_wrapped: BIGINT, f_inner: STRUCT<x: INT, y: STRING>, opt: BIGINT, " +
    "l_int32: ARRAY<INT>, l_string: ARRAY<STRING>, l_unpacked: ARRAY<INT>, l_inner: ARRAY<STRUCT<x: INT, y: STRING>>, " +
    "m_inner: MAP<STRING, STRUCT<x: INT, y: STRING>>, o_text: STRING, o_inner: STRUCT<x: INT, y: STRING>, big_number: BIGINT, none: INT"

  private def decoded(message: Descriptor, ddl: String, record: Array[Byte]): Either[String, Any] = {
    val row = new ProtobufDecoder(kind(ddl), new ProtobufDecoder.One(message), (_, _) => ()).decode(record)
    if (row.isNullAt(1)) Right(CatalystTypeConverters.convertToScala(row.get(0, kind(ddl)), kind(ddl))) else Left(row.getUTF8String(1).toString)
  }

  private def encoded(message: Descriptor, ddl: String, row: Row): Array[Byte] =
    new ProtobufEncoder(kind(ddl), message, Array.emptyByteArray)
      .encode(CatalystTypeConverters.createToCatalystConverter(kind(ddl))(row).asInstanceOf[InternalRow])

  private val time = java.sql.Timestamp.from(java.time.Instant.parse("2011-12-03T10:15:30.123456Z"))
  private val full = Row(true, Int.MinValue, (-3).toShort, 7, 4294967295L, 1L, Long.MinValue, -5L, 8L, new java.math.BigDecimal("18446744073709551615"), 9L,
    1.5f, -0.1, "aé", Array[Byte](1, -1), "ODD", time, 0L, Row(-1, "z" * 200), 0L, Seq(1, -2), Seq("", "b"), Seq(3, 4),
    Seq(Row(1, ""), Row(0, "q")), Map("k" -> Row(1, "v"), "" -> Row(0, "")), null, Row(5, "o"), 11L, null)

  test("a row is written as Protobuf's own library reads it, and read as it writes it") {
    val record = encoded(allMessage, ddl, full)
    val theirs = DynamicMessage.parseFrom(allMessage, record)
    assert(theirs.getUnknownFields.asMap.isEmpty)
    assertEquals(theirs.toByteArray.toSeq, DynamicMessage.parseFrom(allMessage, theirs.toByteString).toByteArray.toSeq)
    assertEquals(theirs.getField(allMessage.findFieldByName("f_string")), "aé")
    assertEquals(theirs.getField(allMessage.findFieldByName("f_uint64")), -1L)
    assertEquals(decoded(allMessage, ddl, theirs.toByteArray).map(shown), Right(shown(full)))
    assertEquals(decoded(allMessage, ddl, record).map(shown), Right(shown(full)))
  }

  /** Bytes compare by what they are. */
  private def shown(value: Any): String = value match {
    case row: Row           => shown(row.toSeq)
    case bytes: Array[Byte] => shown(bytes.toSeq)
    case items: collection.Seq[_] => items.map(shown).mkString("(", ",", ")")
    case other              => String.valueOf(other)
  }

  test("what is not there is NULL where a field can tell, else its zero") {
    val empty = Row(false, 0, 0.toShort, 0, 0L, 0L, 0L, 0L, 0L, new java.math.BigDecimal("0"), 0L, 0f, 0.0, "", Array.emptyByteArray, "PLAIN", null, null, null,
      null, Seq(), Seq(), Seq(), Seq(), Map(), null, null, 0L, null)
    assertEquals(decoded(allMessage, ddl, Array.emptyByteArray).map(shown), Right(shown(empty)))
    assertEquals(encoded(allMessage, ddl, empty).toSeq, Seq.empty[Byte])
    val set = encoded(allMessage, "opt: BIGINT, f_wrapped: BIGINT", Row(0L, 0L))
    assertEquals(decoded(allMessage, "opt: BIGINT, f_wrapped: BIGINT", set), Right(Row(0L, 0L)))
    val proto2 = linked(file("proto2", message("M", field("n", 1, Type.TYPE_INT64), field("d", 2, Type.TYPE_INT64).setDefaultValue("5"),
      field("r", 3, Type.TYPE_INT32, Label.LABEL_REQUIRED)))).findMessageTypeByName("M")
    assertEquals(decoded(proto2, "n: BIGINT, d: BIGINT, r: INT", Array[Byte](24, 1)), Right(Row(null, null, 1)))
    assertEquals(decoded(proto2, "n: BIGINT, r: INT", Array[Byte](8, 1)), Left("the required field r is missing"))
    assertEquals(decoded(proto2, "n: BIGINT", Array[Byte](8, 1)), Right(Row(1L)))
    assertEquals(decoded(proto2, "n: BIGINT, r: INT", encoded(proto2, "n: BIGINT, r: INT", Row(0L, 0))), Right(Row(0L, 0)))
    intercept[Unwritable](encoded(proto2, "r: INT", Row(null)))
  }

  private def written(fields: (String, Any)*): Array[Byte] = {
    val made = DynamicMessage.newBuilder(allMessage)
    fields.foreach { case (name, value) => made.setField(allMessage.findFieldByName(name), value) }
    made.build().toByteArray
  }

  private def inner(x: Int, y: String): DynamicMessage = {
    val of = allMessage.findNestedTypeByName("Inner")
    DynamicMessage.newBuilder(of).setField(of.findFieldByName("x"), x).setField(of.findFieldByName("y"), y).build()
  }

  test("a message goes on where it is written twice, and the last of a oneof counts") {
    val twice = written("f_inner" -> inner(1, "")) ++ written("f_inner" -> inner(0, "b"), "l_int32" -> java.util.List.of(1)) ++
      written("l_int32" -> java.util.List.of(2))
    assertEquals(decoded(allMessage, "f_inner: STRUCT<x: INT, y: STRING>, l_int32: ARRAY<INT>", twice), Right(Row(Row(1, "b"), Seq(1, 2))))
    val choices = written("o_text" -> "a") ++ written("o_inner" -> inner(1, "b"))
    assertEquals(decoded(allMessage, "o_text: STRING, o_inner: STRUCT<x: INT>", choices), Right(Row(null, Row(1))))
    assertEquals(decoded(allMessage, "o_text: STRING, o_inner: STRUCT<x: INT>", choices ++ written("o_text" -> "")), Right(Row("", null)))
  }

  test("lists are read packed and unpacked, and messages as well as what they stand for") {
    // Field 22 packed, as an old writer would not have it, and field 50 the other way round.
    val record = Array[Byte]((22 << 3 | 0).toByte, 1, 1, (22 << 3 | 0).toByte, 1, 2, (50 << 3 | 2).toByte, 3, 2, 3, 4)
    assertEquals(decoded(allMessage, "l_int32: ARRAY<INT>, l_unpacked: ARRAY<INT>", record), Right(Row(Seq(1, 2), Seq(3, 4))))
    val stamped = written("f_time" -> Timestamp.newBuilder().setSeconds(-1).setNanos(5000).build(), "f_wrapped" -> Int64Value.of(3))
    assertEquals(
      decoded(allMessage, "f_time: STRUCT<seconds: BIGINT, nanos: INT>, f_wrapped: STRUCT<value: BIGINT>", stamped),
      Right(Row(Row(-1L, 5000), Row(3L)))
    )
    assertEquals(decoded(allMessage, "f_enum: STRING", Array[Byte](0xc8.toByte, 2, 9)), Right(Row("9")))
    val texts = encoded(allMessage, "f_string: DATE, o_text: DECIMAL(9, 2)", Row(java.sql.Date.valueOf("2019-12-26"), new java.math.BigDecimal("-1.50")))
    assertEquals(decoded(allMessage, "f_string: STRING, o_text: STRING", texts), Right(Row("2019-12-26", "-1.50")))
    assertEquals(
      decoded(allMessage, "f_string: DATE, o_text: DECIMAL(9, 2)", texts),
      Right(Row(java.sql.Date.valueOf("2019-12-26"), new java.math.BigDecimal("-1.50")))
    )
  }

  for ((name, ddl, record, reason) <- Seq[(String, String, Array[Byte], String)](
      ("JSON", "f_int32: INT", "{\"id\":1}".getBytes(UTF_8), "it is not a valid t.All: it ends in the midst of a value"),
      ("half a record", "f_string: STRING", Array[Byte](14 << 3 | 2, 5, 65), "it is not a valid t.All: it ends in the midst of a value"),
      ("a text longer than all memory", "f_string: STRING", Array[Byte](14 << 3 | 2, -1, -1, -1, -1, 7), "it is not a valid t.All: it ends in the midst of a value"),
      ("another wire type", "f_int32: INT", Array[Byte](2 << 3 | 2, 1, 65), "its field f_int32 is written in another way than its type is (wire type 2, not 0)"),
      ("text that is none", "f_string: STRING", Array[Byte](14 << 3 | 2, 1, -1), "column f_string is not UTF-8"),
      ("a number too large", "f_uint32: INT", Array[Byte](5 << 3, -1, -1, -1, -1, 15), "column f_uint32 expects INTEGER, found the number 4294967295"),
      ("another type", "f_int32: STRING", Array.empty[Byte], "it is a t.All: column f_int32 expects STRING, found int32"),
      ("a list", "l_int32: INT", Array.empty[Byte], "it is a t.All: column l_int32 expects INTEGER, found repeated int32"),
      ("groups in groups", "f_int32: INT", Array.fill[Byte](100000)(19 << 3 | 3 - 128), "it is not a valid t.All")
    ))
    test(s"no record: $name")(assert(decoded(allMessage, ddl, record).left.exists(_.startsWith(reason)), decoded(allMessage, ddl, record).toString))

  for ((name, ddl, row, reason) <- Seq[(String, String, Row, String)](
      ("too large", "f_int32: BIGINT", Row(1L << 31), "the column f_int32 has 2147483648, which its Protobuf field of the type int32 does not hold"),
      ("negative", "f_uint64: BIGINT", Row(-1L), "the column f_uint64 has -1, which its Protobuf field of the type uint64"),
      ("no such name", "f_enum: STRING", Row("EVEN"), "the column f_enum has the value EVEN"),
      ("a NULL in a list", "l_string: ARRAY<STRING>", Row(Seq("a", null)), "the column l_string has a NULL in its list")
    ))
    test(s"no place in a message: $name") {
      val said = intercept[Unwritable](encoded(allMessage, ddl, row)).getMessage.split(":")(1)
      assert(new String(Base64.getDecoder.decode(said), UTF_8).startsWith(reason), new String(Base64.getDecoder.decode(said), UTF_8))
    }

  private def wire(id: Int, place: Seq[Byte], data: Array[Byte]): Array[Byte] =
    java.nio.ByteBuffer.allocate(5).put(0.toByte).putInt(id).array ++ place ++ data

  test("a record says by which schema it was written, and which of its messages it is") {
    val files = Map(1 -> linked(all), 2 -> linked(file("proto3", message("Other", field("n", 4, Type.TYPE_INT32)))))
    def read(record: Array[Byte], messageName: String = ""): Either[String, Any] = {
      val of = kind("n: BIGINT, x: INT")
      val row = new ProtobufDecoder(of, new ProtobufDecoder.Registered(files.get, messageName), (_, _) => ()).decode(record)
      if (row.isNullAt(1)) Right(CatalystTypeConverters.convertToScala(row.get(0, of), of)) else Left(row.getUTF8String(1).toString)
    }
    val other = Seq[Byte](2, 2)
    assertEquals(read(wire(2, Seq(0), Array[Byte](32, 9))), Right(Row(9L, null)))
    assertEquals(read(wire(2, Seq(2, 0), Array[Byte](32, 9))), Right(Row(9L, null)))
    assertEquals(read(wire(1, other, Array[Byte](8, 7))), Right(Row(7L, null)))
    // The only message in the first one: its map's entries do not count.
    assertEquals(read(wire(1, Seq(4, 0, 0), Array[Byte](8, 5))), Right(Row(null, 5)))
    assertEquals(read(wire(1, other, Array[Byte](8, 7)), "Other"), Right(Row(7L, null)))
    assertEquals(read(wire(1, Seq(0), Array.emptyByteArray), "Other"), Left("expected the message Other, found t.All"))
    assertEquals(read(wire(1, Seq(2, 8), Array.emptyByteArray)), Left("its schema 1 has no message at 4"))
    assertEquals(read(wire(77, Seq(0), Array.emptyByteArray)), Left("the registry knows no schema of the id 77"))
    assertEquals(read(Array[Byte](0, 0, 0, 0, 1, -1, -1, -1, -1, 15, 0)), Left("the place of its message has -2147483648 parts"))
    assert(read("{\"n\":1}".getBytes(UTF_8)).left.exists(_.startsWith("expected a zero byte, the id of a schema and the place")))
  }

  test("the files of a schema are read by whoever reads such, and kept") {
    val mapper = new ObjectMapper()
    val server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0)
    val answers = Map(
      "/schemas/ids/5" -> java.util.Map.of("schema", "main", "schemaType", "PROTOBUF", "references",
        java.util.List.of(java.util.Map.of("name", "m.proto", "subject", "m", "version", 3))),
      "/schemas/ids/6" -> java.util.Map.of("schema", "bad", "schemaType", "PROTOBUF"),
      "/schemas/ids/7" -> java.util.Map.of("schema", "\"int\""),
      "/subjects/m/versions/3" -> java.util.Map.of("schema", "money", "schemaType", "PROTOBUF")
    )
    server.createContext("/", exchange => {
      val answer = answers.get(exchange.getRequestURI.getRawPath)
      val body = answer.fold("{}".getBytes(UTF_8))(mapper.writeValueAsBytes)
      exchange.sendResponseHeaders(if (answer.isEmpty) 404 else 200, body.length.toLong)
      exchange.getResponseBody.write(body)
      exchange.close()
    })
    server.start()
    val set = FileDescriptorSet.newBuilder().addFile(TimestampProto.getDescriptor.toProto).addFile(WrappersProto.getDescriptor.toProto).addFile(all).build()
    SchemaRegistry.readBy {
      case """{"text":"main","imports":{"m.proto":"money"}}""" => s"""{"descriptors":"${Base64.getEncoder.encodeToString(set.toByteArray)}"}"""
      case _ => """{"reason":"line 1: expected a definition"}"""
    }
    val registry = new SchemaRegistry("sr", Map("uris" -> s"http://127.0.0.1:${server.getAddress.getPort}"))
    assertEquals(registry.messages(5).map(_.getMessageTypes.asScala.map(_.getName).toSeq), Some(Seq("All", "Other")))
    assertEquals(registry.messages(8), None)
    assertEquals(intercept[Unreadable](registry.messages(6)).getMessage, "its schema 6 cannot be read: line 1: expected a definition")
    assertEquals(intercept[Unreadable](registry.messages(7)).getMessage, "its schema 7 is of the type AVRO, not PROTOBUF")
    server.stop(0)
    assert(registry.messages(5).isDefined)
    intercept[RegistryAway](registry.messages(9))
  }

  test("bytes are as they were") {
    val bytes = ByteString.copyFrom(Array[Byte](0, -1)).toByteArray
    assertEquals(decoded(allMessage, "f_bytes: BINARY", written("f_bytes" -> ByteString.copyFrom(bytes))).map(shown), Right(shown(Row(bytes))))
  }
}
