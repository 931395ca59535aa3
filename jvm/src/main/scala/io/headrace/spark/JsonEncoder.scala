package io.headrace.spark

import java.io.ByteArrayOutputStream
import java.time.ZoneOffset

import com.fasterxml.jackson.core.{JsonEncoding, JsonFactory, JsonFactoryBuilder, JsonGenerator}
import com.fasterxml.jackson.core.io.SerializedString
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.{DateFormatter, TimestampFormatter}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows of `kind` as JSON objects in UTF-8, byte for byte as Spark's `to_json` writes them with NULLs; but bytes are what it makes at
  * once, and not text of which bytes are made. For one thread.
  *
  * @param times the pattern of a TIMESTAMP
  */
private[spark] final class JsonEncoder(kind: StructType, times: String) {
  import JsonEncoder._

  private val out = new ByteArrayOutputStream
  private val generator: JsonGenerator = factory.createGenerator(out, JsonEncoding.UTF8)
  private lazy val timeFormat = TimestampFormatter(times, ZoneOffset.UTC, isParsing = false)
  private lazy val dateFormat = DateFormatter()
  private val writeRow = fieldsOf(kind)

  def encode(row: InternalRow): Array[Byte] = {
    out.reset()
    writeRow(row)
    generator.flush()
    out.toByteArray
  }

  private def fieldsOf(kind: StructType): SpecializedGetters => Unit = {
    val names = kind.fieldNames.map(new SerializedString(_))
    val writers = kind.fields.map(field => writerOf(field.dataType))
    row => {
      generator.writeStartObject()
      var at = 0
      while (at < names.length) {
        generator.writeFieldName(names(at))
        if (row.isNullAt(at)) generator.writeNull() else writers(at)(row, at)
        at += 1
      }
      generator.writeEndObject()
    }
  }

  private def writerOf(kind: DataType): Writer = kind match {
    case NullType             => (_, _) => generator.writeNull()
    case BooleanType          => (values, at) => generator.writeBoolean(values.getBoolean(at))
    case ByteType             => (values, at) => generator.writeNumber(values.getByte(at).toInt)
    case ShortType            => (values, at) => generator.writeNumber(values.getShort(at).toInt)
    case IntegerType          => (values, at) => generator.writeNumber(values.getInt(at))
    case LongType             => (values, at) => generator.writeNumber(values.getLong(at))
    case FloatType            => (values, at) => generator.writeNumber(values.getFloat(at))
    case DoubleType           => (values, at) => generator.writeNumber(values.getDouble(at))
    case kind: DecimalType    =>
      (values, at) => generator.writeNumber(values.getDecimal(at, kind.precision, kind.scale).toJavaBigDecimal)
    case _: StringType        => (values, at) => write(values.getUTF8String(at))
    case BinaryType           => (values, at) => generator.writeBinary(values.getBinary(at))
    case DateType             => (values, at) => generator.writeString(dateFormat.format(values.getInt(at)))
    case TimestampType        => (values, at) => generator.writeString(timeFormat.format(values.getLong(at)))
    case ArrayType(item, _)   =>
      val writer = writerOf(item)
      (values, at) => {
        val items = values.getArray(at)
        generator.writeStartArray()
        (0 until items.numElements()).foreach(index => if (items.isNullAt(index)) generator.writeNull() else writer(items, index))
        generator.writeEndArray()
      }
    case MapType(_: StringType | NullType, value, _) =>
      val writer = writerOf(value)
      (values, at) => {
        val map = values.getMap(at)
        val (names, items) = (map.keyArray(), map.valueArray())
        generator.writeStartObject()
        (0 until map.numElements()).foreach { index =>
          generator.writeFieldName(names.getUTF8String(index).toString)
          if (items.isNullAt(index)) generator.writeNull() else writer(items, index)
        }
        generator.writeEndObject()
      }
    case row: StructType      =>
      val writer = fieldsOf(row)
      (values, at) => writer(values.getStruct(at, row.length))
    case other                => throw new IllegalArgumentException(s"expected a type that JSON has, found ${other.sql}")
  }

  /** What is not UTF-8 becomes so. */
  private def write(text: UTF8String): Unit =
    if (text.isValid) {
      val bytes = text.getBytes
      generator.writeUTF8String(bytes, 0, bytes.length)
    } else generator.writeString(text.toString)
}

private[spark] object JsonEncoder {
  private type Writer = (SpecializedGetters, Int) => Unit

  private val factory: JsonFactory = new JsonFactoryBuilder().rootValueSeparator("").build()
}
