package io.headrace.spark

import java.math.{BigDecimal, RoundingMode}

import scala.util.control.NoStackTrace

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType, IntegerType}
import org.apache.spark.unsafe.types.UTF8String

/** Reads the bytes of one format as values of one type. For one thread. */
private[spark] trait RecordDecoder {

  /** The row (value, reason): reason is NULL, or says in a sentence's words why there is no value. */
  final def decode(record: Array[Byte]): InternalRow =
    try new GenericInternalRow(Array[Any](read(record), null))
    catch {
      case bad: Unreadable => new GenericInternalRow(Array[Any](null, UTF8String.fromString(bad.getMessage)))
    }

  /** The value. Throws [[Unreadable]] when there is none. */
  protected def read(record: Array[Byte]): Any
}

/** Reason why a record has no value. */
private[spark] final class Unreadable(message: String) extends Exception(message) with NoStackTrace

/** A format and all that is said of it, as expressions carry it to where records are read. */
private[spark] trait RecordFormat extends Serializable {
  def name: String

  /** `spelled` is told of a field that differs from a column in case only: the field's and the column's name. */
  def decoder(kind: DataType, spelled: (String, String) => Unit): RecordDecoder
}

private[spark] object RecordDecoder {
  private val number = java.util.regex.Pattern.compile("-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]{1,9})?")
  private val ExcerptCharacters = 40

  /** Name of a type in errors. */
  def typeName(kind: DataType): String = if (kind == IntegerType) "INTEGER" else kind.sql.replace(",", ", ")

  /** True if a text is a number in JSON's syntax, with an exponent that arithmetic can handle. */
  def isNumber(text: String): Boolean = number.matcher(text).matches

  /** Texts of floating-point values that are no numbers. */
  val notFinite: Map[String, Double] =
    Map("NaN" -> Double.NaN, "Infinity" -> Double.PositiveInfinity, "-Infinity" -> Double.NegativeInfinity)

  /** A number rounded to the scale of `kind`; None where it has too many digits before the point. */
  def fitted(number: BigDecimal, kind: DecimalType): Option[Decimal] = {
    // Not by setScale, which would write out all the digits of 1e1000000000.
    val digits = number.precision.toLong - number.scale
    if (number.signum == 0 || digits < -kind.scale) Some(Decimal(BigDecimal.ZERO, kind.precision, kind.scale))
    else if (digits > kind.precision - kind.scale) None
    else {
      val rounded = number.setScale(kind.scale, RoundingMode.HALF_UP)
      Option.when(rounded.precision <= kind.precision)(Decimal(rounded, kind.precision, kind.scale))
    }
  }

  /** The beginning of a text, for an error. */
  def excerpt(text: String): String =
    if (text.length <= ExcerptCharacters) text else text.take(ExcerptCharacters) + "…"
}
