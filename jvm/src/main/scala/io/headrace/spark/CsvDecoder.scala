package io.headrace.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Decoder of a line of CSV (RFC 4180, UTF-8) to a row of `columns`: as many fields as there are columns, in their
  * order.
  *
  * An empty field is NULL, one that is empty in quotes an empty text. Blanks belong to their field. A line break ends the
  * record, or stands in quotes. Times are written as [[TimeText]] says, bytes in base64.
  */
private[spark] final class CsvDecoder(columns: StructType, delimiter: Char, times: TimeText.Layout) extends RecordDecoder {
  import RecordDecoder._

  private val parsers: Array[String => Option[Any]] = columns.fields.map(field => parser(field.dataType))

  override protected def read(record: Array[Byte]): Any = {
    val texts = fields(record)
    if (texts.size != parsers.length)
      throw new Unreadable(s"expected ${parsers.length} fields, found ${texts.size}")
    val values = new Array[Any](parsers.length)
    for (index <- parsers.indices) {
      val text = texts(index)
      if (text != null) values(index) = parsers(index)(text).getOrElse(throw mismatch(columns(index), text))
    }
    new GenericInternalRow(values)
  }

  /** The fields' texts; null for one that is empty and not in quotes. */
  private def fields(record: Array[Byte]): ArrayBuffer[String] = {
    if (!UTF8String.fromBytes(record).isValid) throw new Unreadable("it is not UTF-8")
    val text = new String(record, UTF_8).stripSuffix("\n").stripSuffix("\r")
    val texts = ArrayBuffer.empty[String]
    var at = 0
    while (at <= text.length) {
      val place = s"field ${texts.size + 1}"
      if (at < text.length && text(at) == '"') {
        val content = new java.lang.StringBuilder
        val end = quoted(text, at + 1, content, place)
        if (end < text.length && text(end) != delimiter)
          throw new Unreadable(s"$place continues after its closing quote")
        texts += content.toString
        at = end + 1
      } else {
        val next = text.indexOf(delimiter, at)
        val end = if (next < 0) text.length else next
        val plain = text.substring(at, end)
        if (plain.indexOf('"') >= 0) throw new Unreadable(s"$place has a quote in it and is not in quotes")
        if (plain.indexOf('\n') >= 0 || plain.indexOf('\r') >= 0) throw new Unreadable("more than one line is in it")
        texts += (if (plain.isEmpty) null else plain)
        at = end + 1
      }
    }
    texts
  }

  /** Appends what is in quotes from `first` on to `content`; gives the place behind the closing quote. */
  private def quoted(text: String, first: Int, content: java.lang.StringBuilder, place: String): Int = {
    var at = first
    while (true) {
      val quote = text.indexOf('"', at)
      if (quote < 0) throw new Unreadable(s"$place has no closing quote")
      content.append(text, at, quote)
      if (quote + 1 == text.length || text(quote + 1) != '"') return quote + 1
      content.append('"')
      at = quote + 2
    }
    at
  }

  private def parser(kind: DataType): String => Option[Any] = kind match {
    case BooleanType          => _.toLowerCase(java.util.Locale.ROOT).toBooleanOption
    case ByteType             => integer(_).filter(_.isValidByte).map(_.toByte)
    case ShortType            => integer(_).filter(_.isValidShort).map(_.toShort)
    case IntegerType          => integer(_).filter(_.isValidInt).map(_.toInt)
    case LongType             => integer
    case FloatType            => floating(_).map(_.toFloat).filter(number => !number.isInfinite)
    case DoubleType           => floating
    case decimal: DecimalType => text => Option.when(isNumber(text))(new java.math.BigDecimal(text)).flatMap(fitted(_, decimal))
    case _: StringType        => text => Some(UTF8String.fromString(text))
    case DateType             => TimeText.days
    case TimestampType        => TimeText.micros(_, times)
    case BinaryType =>
      text =>
        try Some(Base64.getDecoder.decode(text))
        catch { case _: IllegalArgumentException => None }
    case other => throw new IllegalArgumentException(s"expected a type that CSV has, found ${other.sql}")
  }

  private def integer(text: String): Option[Long] =
    if (text.forall(digit => digit == '-' || digit >= '0' && digit <= '9')) text.toLongOption else None

  private def floating(text: String): Option[Double] =
    notFinite.get(text).orElse(Option.when(isNumber(text))(text.toDouble).filter(number => !number.isInfinite))

  private def mismatch(column: StructField, text: String): Unreadable =
    new Unreadable(s"column ${column.name} expects ${typeName(column.dataType)}, found the text \"${excerpt(text)}\"")
}

private[spark] final case class CsvFormat(delimiter: Char, times: TimeText.Layout) extends RecordFormat {
  override def name: String = "csv"
  override def decoder(kind: DataType, spelled: (String, String) => Unit): RecordDecoder =
    new CsvDecoder(kind.asInstanceOf[StructType], delimiter, times)
}
