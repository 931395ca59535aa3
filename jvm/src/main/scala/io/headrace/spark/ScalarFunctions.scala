package io.headrace.spark

import java.math.{BigDecimal, RoundingMode}
import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Formatter, IllegalFormatException, Locale}
import java.util.regex.{Matcher, Pattern, PatternSyntaxException}
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types.{DataType, Decimal, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** Scalar functions that Spark lacks, or defines otherwise than Flink. A function of NULL is NULL.
  *
  * Generated code calls them as static methods. `engine/views/text_functions.py` and `json_functions.py` have the same for DuckDB.
  */
private[spark] object ScalarFunctions {
  private val ScaleMax = 400
  private val Octet = "0*([0-9]{1,3})".r

  /** A number, written as text, without the decimal places beyond `places`; a negative one clears digits before the point. */
  def truncated(number: UTF8String, places: Int): UTF8String =
    try {
      val exact = new BigDecimal(number.toString)
      val cut = if (places >= exact.scale) exact else exact.setScale(math.max(places, -ScaleMax), RoundingMode.DOWN)
      UTF8String.fromString(if (cut.signum == 0) "0" else cut.toPlainString)
    } catch { case _: NumberFormatException => number } // NaN and the infinities

  def urlEncoded(text: UTF8String): UTF8String = UTF8String.fromString(URLEncoder.encode(text.toString, UTF_8))

  /** NULL for an escape that is not two hexadecimal digits. */
  def urlDecoded(text: UTF8String): UTF8String =
    try UTF8String.fromString(URLDecoder.decode(text.toString, UTF_8))
    catch { case _: IllegalArgumentException => null }

  /** The number of an IPv4 address; `a.b` is `a.0.0.b`, `a.b.c` is `a.b.0.c`. NULL for any other text. */
  def addressNumber(text: UTF8String): java.lang.Long = {
    val octets = text.toString.split("\\.", -1).map {
      case Octet(digits) if digits.toInt < 256 => digits.toLong
      case _                                   => -1L
    }
    if (octets.length > 4 || octets.contains(-1L)) null
    else octets.init.zipWithIndex.map { case (octet, place) => octet << (24 - 8 * place) }.sum + octets.last
  }

  def addressText(number: Long): UTF8String =
    if (number < 0 || number > 0xffffffffL) null
    else UTF8String.fromString(Seq(24, 16, 8, 0).map(bits => (number >> bits) & 255).mkString("."))

  /** The keyed hash of a text in base 16; `algorithm` is a name of Java's, such as HmacSHA256. */
  def keyedHash(text: UTF8String, key: UTF8String, algorithm: UTF8String): UTF8String = {
    val mac = Mac.getInstance(algorithm.toString)
    // Java refuses an empty key; HMAC pads a key with zeros, so that a zero is the same key.
    mac.init(new SecretKeySpec(if (key.numBytes == 0) Array[Byte](0) else key.getBytes, algorithm.toString))
    UTF8String.fromString(java.util.HexFormat.of.formatHex(mac.doFinal(text.getBytes)))
  }

  def jsonKind(text: UTF8String): UTF8String = JsonFunction.kind(text.toString).map(UTF8String.fromString).orNull
  def jsonQuoted(text: UTF8String): UTF8String = UTF8String.fromString(JsonFunction.asciiQuoted(text.toString))
  def jsonUnquoted(text: UTF8String): UTF8String =
    JsonFunction.unquoted(text.toString).map(UTF8String.fromString).getOrElse(text)

  // --- percentiles

  /** The value at a share (0 to 1) of the sorted values, between the two nearest by linear interpolation; NULL of no values. */
  def percentile(values: ArrayData, share: Double): java.lang.Double = valueAt(values.toDoubleArray().map(_ -> 1L), share)

  /** The same of STRUCTs of a value and how many times it counts. */
  def weightedPercentile(rows: ArrayData, share: Double): java.lang.Double = {
    val weighted = Array.tabulate(rows.numElements()) { place =>
      val row = rows.getStruct(place, 2)
      row.getDouble(0) -> row.getLong(1)
    }
    valueAt(weighted, share)
  }

  private def valueAt(weighted: Array[(Double, Long)], share: Double): java.lang.Double =
    if (weighted.isEmpty) null
    else {
      val sorted = weighted.sortWith { case ((left, _), (right, _)) => java.lang.Double.compare(left, right) < 0 }
      val ends = sorted.map(_._2).scanLeft(0L)(Math.addExact).tail
      val place = share * (ends.last - 1)
      val (below, above) = (Math.floor(place), Math.ceil(place))
      def valueOf(rank: Double): Double = sorted(ends.indexWhere(_ > rank))._1
      val (low, high) = (valueOf(below), valueOf(above))
      if (low == high || below == above) low else (above - place) * low + (place - below) * high
    }

  // --- SIMILAR TO

  private val Classes = Map("ALPHA" -> "A-Za-z", "UPPER" -> "A-Z", "LOWER" -> "a-z", "DIGIT" -> "0-9", "ALNUM" -> "A-Za-z0-9",
    "SPACE" -> " ", "WHITESPACE" -> " \\t\\n\\r\\f\\x0b")
  private val Repeats = "^\\{[0-9]+(,[0-9]*)?\\}".r
  private val Class = "^\\[:([A-Za-z]+):\\]".r

  /** A pattern of SIMILAR TO as a regular expression; `escape` is one character, or empty for none. */
  def similarPattern(pattern: UTF8String, escape: UTF8String): UTF8String = {
    val (text, out) = (pattern.toString, new StringBuilder("(?s)\\A(?:"))
    def invalid(why: String) = throw new RuntimeException(s"[USER_RAISED_EXCEPTION] [22000] $why in the pattern of SIMILAR TO")
    def literal(code: Int): Unit = {
      if (code < 128 && !Character.isLetterOrDigit(code)) out += '\\'
      out.append(Character.toString(code))
    }
    var (place, bracketed) = (0, false)
    while (place < text.length) {
      val code = text.codePointAt(place)
      val (character, rest) = (Character.toString(code), text.substring(place))
      place += character.length
      if (character == escape.toString) {
        if (place == text.length) invalid(s"nothing follows the escape character $character")
        literal(text.codePointAt(place))
        place += Character.charCount(text.codePointAt(place))
      } else if (bracketed) character match {
        case "]"       => out += ']'; bracketed = false
        case "-" | "^" => out.append(character)
        case "[" =>
          val named = Class.findFirstMatchIn(rest).getOrElse(invalid("a [ in brackets does not start a class such as [:DIGIT:]"))
          out.append(Classes.getOrElse(named.group(1).toUpperCase(Locale.ROOT), invalid(s"there is no class ${named.matched}")))
          place += named.matched.length - 1
        case _ => literal(code)
      }
      else character match {
        case "%"                   => out.append(".*")
        case "_"                   => out += '.'
        case "("                   => out.append("(?:")
        case "[" if rest.startsWith("[^]") || rest.startsWith("[]") => invalid("the brackets are empty")
        case "["                   => out += '['; bracketed = true
        case "{" =>
          val repeats = Repeats.findFirstIn(rest).getOrElse(invalid("a { does not start a number of repeats such as {2,3}"))
          out.append(repeats)
          place += repeats.length - 1
        case "|" | "*" | "+" | "?" | ")" => out.append(character)
        case _                     => literal(code)
      }
    }
    if (bracketed) invalid("a [ is not closed")
    UTF8String.fromString(out.append(")\\z").toString)
  }

  // --- regular expressions: NULL for a pattern that is none

  private val PatternsMax = 64

  private final class Patterns extends java.util.LinkedHashMap[UTF8String, Option[Pattern]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[UTF8String, Option[Pattern]]): Boolean = size > PatternsMax
  }

  private val patterns = ThreadLocal.withInitial[Patterns](() => new Patterns)

  private def compiled(regex: UTF8String): Option[Pattern] = {
    val known = patterns.get.get(regex)
    if (known != null) known
    else {
      val pattern =
        try Some(Pattern.compile(regex.toString))
        catch { case _: PatternSyntaxException => None }
      patterns.get.put(regex.clone(), pattern)
      pattern
    }
  }

  private def matcher(text: UTF8String, regex: UTF8String): Option[Matcher] = compiled(regex).map(_.matcher(text.toString))

  def matchCount(text: UTF8String, regex: UTF8String): Integer = matcher(text, regex) match {
    case Some(matches) => matches.results.count.toInt
    case None          => null
  }

  /** The 1-based place of the first match, in characters; 0 if there is none. */
  def matchPlace(text: UTF8String, regex: UTF8String): Integer = matcher(text, regex) match {
    case Some(matches) => if (matches.find()) text.toString.codePointCount(0, matches.start) + 1 else 0
    case None          => null
  }

  def firstMatch(text: UTF8String, regex: UTF8String): UTF8String =
    matcher(text, regex).filter(_.find()).map(matches => UTF8String.fromString(matches.group)).orNull

  /** A group of each match; NULL if the pattern has no such group. */
  def allMatches(text: UTF8String, regex: UTF8String, group: Int): ArrayData = matcher(text, regex) match {
    case Some(matches) if group >= 0 && group <= matches.groupCount =>
      val groups = scala.collection.mutable.ArrayBuffer.empty[Any]
      while (matches.find()) groups += UTF8String.fromString(matches.group(group))
      new GenericArrayData(groups.toArray[Any])
    case _ => null
  }
}

/** `headrace_printf(format, arguments…)`: a text by Java's `Formatter`; NULL for a format that does not fit its arguments. */
private[spark] final case class FormatText(children: Seq[Expression]) extends Expression with CodegenFallback {
  override def dataType: DataType = StringType
  override def nullable: Boolean = true
  override def prettyName: String = "headrace_printf"

  override def eval(input: InternalRow): Any = children.head.eval(input) match {
    case null => null
    case format =>
      val arguments = children.tail.map(_.eval(input)).map {
        case text: UTF8String => text.toString
        case number: Decimal  => number.toJavaBigDecimal
        case other            => other
      }
      FormatText.written(format.toString, arguments)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): FormatText = copy(newChildren)
}

private[spark] object FormatText {
  private val LengthMax = 16 * 1024 * 1024 // as TEXT_LENGTH_MAX in core/types.py
  private val Widths = "%[^%a-zA-Z]*".r
  private val Digits = "[0-9]+".r

  private def written(format: String, arguments: Seq[Any]): UTF8String = {
    // A Formatter pads in memory before it writes.
    val widths = Widths.findAllIn(format).flatMap(Digits.findAllIn(_)).map(_.dropWhile(_ == '0'))
    if (widths.exists(width => width.length > 8 || (width.nonEmpty && width.toLong > LengthMax))) throw TooLong
    val out = new Bounded
    try {
      new Formatter(out, Locale.US).format(format, arguments.map(_.asInstanceOf[AnyRef]): _*)
      UTF8String.fromString(out.text.toString)
    } catch { case _: IllegalFormatException => null }
  }

  private final class Bounded extends Appendable {
    val text = new java.lang.StringBuilder
    private def checked(): Bounded = if (text.length > LengthMax) throw TooLong else this
    override def append(more: CharSequence): Appendable = { text.append(more); checked() }
    override def append(more: CharSequence, start: Int, end: Int): Appendable = { text.append(more, start, end); checked() }
    override def append(character: Char): Appendable = { text.append(character); checked() }
  }

  /** `engine/driver/failures.py` knows this text. */
  private object TooLong
      extends RuntimeException(s"[USER_RAISED_EXCEPTION] PRINTF would return a text of more than $LengthMax characters")
}
