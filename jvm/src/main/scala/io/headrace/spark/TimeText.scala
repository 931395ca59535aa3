package io.headrace.spark

import java.nio.charset.StandardCharsets.US_ASCII
import java.time.{LocalDate, YearMonth, ZoneOffset}

import org.apache.spark.sql.catalyst.util.TimestampFormatter
import org.apache.spark.unsafe.types.UTF8String

/** Times as records write them: the layouts `sql` and `iso8601`, and nothing that would have to be guessed.
  *
  * A DATE is `yyyy-MM-dd`. A TIMESTAMP is that, a blank (`sql`) or `T`, `HH:mm`, and perhaps `:ss`, a fraction of up to nine digits
  * and a zone: `Z`, `+hh`, `+hh:mm` or `+hhmm`. Without a zone it is UTC. Years 1 to 9999; digits beyond microseconds are cut.
  */
private[spark] object TimeText {

  /** Dividers between the date and the time of a TIMESTAMP. */
  final case class Layout(dividers: String) {

    /** Example of the layout in errors. */
    def example: String = s"yyyy-MM-dd${dividers.head}HH:mm:ss"
  }

  object Layout {
    val Either: Layout = Layout(" T")

    def named(name: UTF8String): Layout = name.toString match {
      case "sql"     => Layout(" ")
      case "iso8601" => Layout("T")
      case "any"     => Either
    }
  }

  /** Days since 1970-01-01; None for any other text. */
  def days(text: String): Option[Int] =
    if (text.length == 10) date(text).map(_.toInt) else None

  /** Microseconds since 1970-01-01 UTC; None for any other text. */
  def micros(text: String, layout: Layout): Option[Long] =
    if (text.length < 16 || layout.dividers.indexOf(text(10)) < 0 || text(13) != ':') None
    else date(text).flatMap(day => time(text).map(day * MicrosPerDay + _))

  /** Microseconds since 1970-01-01 UTC as a TIMESTAMP is written: `yyyy-MM-dd`, the layout's divider, `HH:mm:ss.SSS`, with three
    * more digits where `precise` and they are not zero, and `zone`. Years that have not four digits are as Java writes them.
    *
    * A third of the time that Java's formatter takes: 0.04 µs, and 0.11.
    */
  def written(micros: Long, layout: Layout, precise: Boolean, zone: String): UTF8String = {
    val date = LocalDate.ofEpochDay(Math.floorDiv(micros, MicrosPerDay))
    val ofDay = Math.floorMod(micros, MicrosPerDay)
    val digits = if (precise && ofDay % 1000 != 0) 6 else 3
    if (date.getYear < 1 || date.getYear > 9999) {
      val pattern = s"yyyy-MM-dd'${layout.dividers.head}'HH:mm:ss.${"S" * digits}"
      UTF8String.fromString(TimestampFormatter(pattern, ZoneOffset.UTC, isParsing = false).format(micros) + zone)
    } else {
      val out = new Array[Byte](FractionAt + digits + zone.length)
      put(out, 0, 4, date.getYear)
      out(4) = '-'
      put(out, 5, 2, date.getMonthValue)
      out(7) = '-'
      put(out, 8, 2, date.getDayOfMonth)
      out(10) = layout.dividers.head.toByte
      val seconds = (ofDay / 1000000).toInt
      put(out, 11, 2, seconds / 3600)
      out(13) = ':'
      put(out, 14, 2, seconds / 60 % 60)
      out(16) = ':'
      put(out, 17, 2, seconds % 60)
      out(19) = '.'
      val fraction = (ofDay % 1000000).toInt
      put(out, FractionAt, digits, if (digits == 3) fraction / 1000 else fraction)
      zone.getBytes(US_ASCII).copyToArray(out, FractionAt + digits)
      UTF8String.fromBytes(out)
    }
  }

  private val MicrosPerDay = 86400000000L
  private val FractionAt = 20
  private val FractionDigits = 9

  private def put(out: Array[Byte], at: Int, digits: Int, number: Int): Unit = {
    var (index, left) = (at + digits - 1, number)
    while (index >= at) {
      out(index) = ('0' + left % 10).toByte
      left /= 10
      index -= 1
    }
  }

  private def date(text: String): Option[Long] = {
    val (year, month, day) = (number(text, 0, 4), number(text, 5, 2), number(text, 8, 2))
    val isDate = text(4) == '-' && text(7) == '-' && year >= 1 && month >= 1 && month <= 12 && day >= 1 &&
      (day <= 28 || day <= YearMonth.of(year, month).lengthOfMonth)
    Option.when(isDate)(LocalDate.of(year, month, day).toEpochDay)
  }

  private def time(text: String): Option[Long] = {
    val (hour, minute) = (number(text, 11, 2), number(text, 14, 2))
    var at = 16
    var second = 0
    var micros = 0L
    if (isAt(text, at, ':')) {
      second = number(text, at + 1, 2)
      at += 3
      if (isAt(text, at, '.')) {
        val first = at + 1
        at = first
        while (at < text.length && isDigit(text(at))) {
          if (at - first < 6) micros = micros * 10 + (text(at) - '0')
          at += 1
        }
        if (at == first || at - first > FractionDigits) second = -1
        (at - first until 6).foreach(_ => micros *= 10)
      }
    }
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) None
    else offsetSeconds(text, at).map(offset => (hour * 3600L + minute * 60L + second - offset) * 1000000L + micros)
  }

  /** The zone that is all of `text` from `at` on. */
  private def offsetSeconds(text: String, at: Int): Option[Long] = {
    val left = text.length - at
    if (left == 0 || left == 1 && text(at) == 'Z') Some(0L)
    else if (!isAt(text, at, '+') && !isAt(text, at, '-')) None
    else {
      val hours = number(text, at + 1, 2)
      val minutes = left match {
        case 3                             => 0
        case 5                             => number(text, at + 3, 2)
        case 6 if isAt(text, at + 3, ':')  => number(text, at + 4, 2)
        case _                             => -1
      }
      val seconds = hours * 3600L + minutes * 60L
      Option.when(hours >= 0 && hours <= 18 && minutes >= 0 && minutes <= 59)(if (text(at) == '-') -seconds else seconds)
    }
  }

  /** The number of `digits` digits at `at`; -1 where there are not so many. */
  private def number(text: String, at: Int, digits: Int): Int =
    if (at + digits > text.length) -1
    else {
      var value = 0
      var index = at
      while (index < at + digits) {
        if (!isDigit(text(index))) return -1
        value = value * 10 + (text(index) - '0')
        index += 1
      }
      value
    }

  private def isAt(text: String, at: Int, character: Char): Boolean = at < text.length && text(at) == character

  private def isDigit(character: Char): Boolean = character >= '0' && character <= '9'
}
