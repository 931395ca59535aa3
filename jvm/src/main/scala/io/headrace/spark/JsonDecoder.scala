package io.headrace.spark

import java.io.IOException
import java.math.BigDecimal
import java.util.{Base64, HashMap, Locale}

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonToken}
import com.fasterxml.jackson.core.JsonToken._
import com.fasterxml.jackson.core.exc.StreamConstraintsException
import com.fasterxml.jackson.core.json.UTF8StreamJsonParser
import com.fasterxml.jackson.core.JsonProcessingException
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Decoder of a JSON text (UTF-8) to a value of `kind`: strictly RFC 8259, without trailing text.
  *
  * A field that is missing or null is NULL, one that `kind` does not name is passed over. A STRING takes any value: the
  * text of a string, and any other value's JSON text as it stands. Numbers stay within their type, a DECIMAL is rounded
  * to its scale. Times are written as [[TimeText]] says, bytes in base64. Names match as they are written.
  *
  * For one thread. `spelled` is told of a field that differs from a column in case only: the field's and the column's name.
  */
private[spark] final class JsonDecoder(kind: DataType, times: TimeText.Layout, spelled: (String, String) => Unit)
    extends RecordDecoder {
  import JsonDecoder._
  import RecordDecoder._

  private val reader = readerOf(kind, "")

  override protected def read(text: Array[Byte]): Any =
    try parsed(text)
    catch {
      case limit: StreamConstraintsException => throw new Unreadable(s"it is beyond a limit: ${limit.getOriginalMessage}")
      case error: JsonProcessingException    => throw new Unreadable(notJson(error))
      case error: IOException                => throw new Unreadable(s"it is not valid JSON: ${error.getMessage}")
    }

  private def parsed(text: Array[Byte]): Any = {
    val parser = factory.createParser(text)
    try {
      // Jackson recognises UTF-16 and UTF-32 too.
      if (!parser.isInstanceOf[UTF8StreamJsonParser]) throw new Unreadable("it is not UTF-8")
      if (parser.nextToken() == null) throw new Unreadable("expected JSON, found nothing")
      val value = reader.read(parser, text)
      if (parser.nextToken() != null) throw new Unreadable(s"more follows the JSON value, at byte ${at(parser)}")
      value
    } finally parser.close()
  }

  private def readerOf(kind: DataType, path: String): Reader = kind match {
    case BooleanType        => new BooleanReader(path)
    case ByteType           => new IntegerReader(path, kind, Byte.MinValue, Byte.MaxValue, _.toByte)
    case ShortType          => new IntegerReader(path, kind, Short.MinValue, Short.MaxValue, _.toShort)
    case IntegerType        => new IntegerReader(path, kind, Int.MinValue, Int.MaxValue, _.toInt)
    case LongType           => new IntegerReader(path, kind, Long.MinValue, Long.MaxValue, identity)
    case FloatType          => new FloatingReader(path, kind)
    case DoubleType         => new FloatingReader(path, kind)
    case decimal: DecimalType => new DecimalReader(path, decimal)
    case _: StringType      => new TextReader
    case DateType           => new TimeReader(path, "DATE, written yyyy-MM-dd", TimeText.days(_).map(Int.box))
    case TimestampType =>
      new TimeReader(path, s"TIMESTAMP, written ${times.example}", TimeText.micros(_, times).map(Long.box))
    case BinaryType          => new TimeReader(path, "BYTES in base64", base64)
    case ArrayType(item, _)  => new ArrayReader(path, readerOf(item, path))
    case MapType(_: StringType, value, _) => new MapReader(path, readerOf(value, path))
    case StructType(fields) =>
      val prefix = if (path.isEmpty) "" else s"$path."
      new ObjectReader(path, fields.map(_.name), fields.map(field => readerOf(field.dataType, prefix + field.name)))
    case other => throw new IllegalArgumentException(s"expected a type that JSON has, found ${other.sql}")
  }

  /** Reads the value that the parser stands at; `text` is all that it parses. */
  private abstract class Reader(path: String) {
    def read(parser: JsonParser, text: Array[Byte]): Any =
      if (parser.currentToken eq VALUE_NULL) null else value(parser, text)

    protected def value(parser: JsonParser, text: Array[Byte]): Any

    protected def mismatch(expected: String, parser: JsonParser): Unreadable = {
      val column = if (path.isEmpty) "expected" else s"column $path expects"
      new Unreadable(s"$column $expected, found ${described(parser)}")
    }
  }

  private final class BooleanReader(path: String) extends Reader(path) {
    override protected def value(parser: JsonParser, text: Array[Byte]): Any = parser.currentToken match {
      case VALUE_TRUE  => true
      case VALUE_FALSE => false
      case _           => throw mismatch("BOOLEAN", parser)
    }
  }

  private final class IntegerReader(path: String, kind: DataType, least: Long, greatest: Long, narrow: Long => Any)
      extends Reader(path) {
    private val expected = typeName(kind)

    override protected def value(parser: JsonParser, text: Array[Byte]): Any = {
      val fits = (parser.currentToken eq VALUE_NUMBER_INT) && (parser.getNumberType ne JsonParser.NumberType.BIG_INTEGER)
      val number = if (fits) parser.getLongValue else throw mismatch(expected, parser)
      if (number < least || number > greatest) throw mismatch(expected, parser)
      narrow(number)
    }
  }

  private final class FloatingReader(path: String, kind: DataType) extends Reader(path) {
    private val single = kind == FloatType

    override protected def value(parser: JsonParser, text: Array[Byte]): Any = {
      val token = parser.currentToken
      val number =
        if (token.isNumeric) parser.getDoubleValue
        else if (token eq VALUE_STRING) notFinite.getOrElse(parser.getText, throw mismatch(kind.sql, parser))
        else throw mismatch(kind.sql, parser)
      val narrow = if (single && token.isNumeric) parser.getFloatValue else number.toFloat
      if (token.isNumeric && (number.isInfinite || single && narrow.isInfinite)) throw mismatch(kind.sql, parser)
      if (single) narrow else number
    }
  }

  /** A string is taken where it is a number's text: writers whose numbers are floating do so to keep the digits. */
  private final class DecimalReader(path: String, kind: DecimalType) extends Reader(path) {
    private val expected = typeName(kind)

    override protected def value(parser: JsonParser, text: Array[Byte]): Any = {
      val token = parser.currentToken
      val readable = token.isNumeric || (token eq VALUE_STRING) && isNumber(parser.getText)
      if (!readable) throw mismatch(expected, parser)
      val number = if (token.isNumeric) parser.getDecimalValue else new BigDecimal(parser.getText)
      fitted(number, kind).getOrElse(throw mismatch(expected, parser))
    }
  }

  private final class TextReader extends Reader("") {
    override protected def value(parser: JsonParser, text: Array[Byte]): Any = parser.currentToken match {
      case START_OBJECT | START_ARRAY =>
        val first = parser.currentTokenLocation.getByteOffset.toInt
        parser.skipChildren()
        UTF8String.fromBytes(text, first, parser.currentLocation.getByteOffset.toInt - first)
      case _ => UTF8String.fromString(parser.getText)
    }
  }

  /** A value that is written as a string of a certain form. */
  private final class TimeReader(path: String, expected: String, parse: String => Option[Any]) extends Reader(path) {
    override protected def value(parser: JsonParser, text: Array[Byte]): Any =
      if (parser.currentToken ne VALUE_STRING) throw mismatch(expected, parser)
      else parse(parser.getText).getOrElse(throw mismatch(expected, parser))
  }

  private final class ArrayReader(path: String, item: Reader) extends Reader(path) {
    override protected def value(parser: JsonParser, text: Array[Byte]): Any = {
      if (parser.currentToken ne START_ARRAY) throw mismatch("ARRAY", parser)
      val items = ArrayBuffer.empty[Any]
      while (parser.nextToken() ne END_ARRAY) items += item.read(parser, text)
      new GenericArrayData(items.toArray)
    }
  }

  private final class MapReader(path: String, item: Reader) extends Reader(path) {
    override protected def value(parser: JsonParser, text: Array[Byte]): Any = {
      if (parser.currentToken ne START_OBJECT) throw mismatch("MAP", parser)
      val keys, values = ArrayBuffer.empty[Any]
      val seen = new java.util.HashSet[String]
      var name = parser.nextFieldName()
      while (name != null) {
        if (!seen.add(name)) throw twice(path, name)
        keys += UTF8String.fromString(name)
        parser.nextToken()
        values += item.read(parser, text)
        name = parser.nextFieldName()
      }
      new ArrayBasedMapData(new GenericArrayData(keys.toArray), new GenericArrayData(values.toArray))
    }
  }

  private final class ObjectReader(path: String, names: Array[String], readers: Array[Reader]) extends Reader(path) {
    private val expected = if (path.isEmpty) "a JSON object" else "STRUCT"
    private val places = new HashMap[String, Integer]
    names.indices.foreach(index => places.put(names(index), index))
    private val byLowerCase = names.map(name => name.toLowerCase(Locale.ROOT) -> name).toMap

    override protected def value(parser: JsonParser, text: Array[Byte]): Any = {
      if (parser.currentToken ne START_OBJECT) throw mismatch(expected, parser)
      val values = new Array[Any](readers.length)
      val seen = new Array[Boolean](readers.length)
      var name = parser.nextFieldName()
      while (name != null) {
        val place = placeOf(name)
        parser.nextToken()
        if (place == Undeclared) parser.skipChildren()
        else if (seen(place)) throw twice(path, name)
        else {
          seen(place) = true
          values(place) = readers(place).read(parser, text)
        }
        name = parser.nextFieldName()
      }
      new GenericInternalRow(values)
    }

    private def placeOf(name: String): Int = {
      val known = places.get(name)
      if (known != null) known
      else {
        byLowerCase.get(name.toLowerCase(Locale.ROOT)).foreach(spelled(name, _))
        // Fields may be named by data: not all of them are kept.
        if (places.size < names.length + NamesKept) places.put(name, Undeclared)
        Undeclared
      }
    }
  }
}

private[spark] final case class JsonFormat(times: TimeText.Layout) extends RecordFormat {
  override def name: String = "json"
  override def decoder(kind: DataType, spelled: (String, String) => Unit): RecordDecoder =
    new JsonDecoder(kind, times, spelled)
}

private[spark] object JsonDecoder {
  import RecordDecoder.excerpt

  // Strict by default: no comments, single quotes, bare names, leading zeros, NaN or control characters.
  private val factory = new JsonFactory
  private val Undeclared: Integer = -1
  private val NamesKept = 1000

  private def base64(text: String): Option[Array[Byte]] =
    try Some(Base64.getDecoder.decode(text))
    catch { case _: IllegalArgumentException => None }

  private def twice(path: String, name: String): Unreadable =
    new Unreadable(s"the field ${if (path.isEmpty) name else s"$path.$name"} stands twice")

  private def described(parser: JsonParser): String = parser.currentToken match {
    case START_OBJECT => "an object"
    case START_ARRAY  => "an array"
    case VALUE_STRING => s"the string \"${excerpt(parser.getText)}\""
    case token: JsonToken if token.isNumeric => s"the number ${excerpt(parser.getText)}"
    case _            => parser.getText
  }

  private def at(parser: JsonParser): Long = parser.currentTokenLocation.getByteOffset

  private def notJson(error: JsonProcessingException): String = {
    val place = Option(error.getLocation).map(_.getByteOffset).filter(_ >= 0).fold("")(byte => s" at byte $byte")
    s"it is not valid JSON$place: ${error.getOriginalMessage.linesIterator.nextOption().getOrElse("")}"
  }
}
