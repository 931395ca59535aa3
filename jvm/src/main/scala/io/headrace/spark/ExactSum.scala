package io.headrace.spark

import java.math.BigInteger
import java.nio.ByteBuffer

/** A sum of DOUBLEs that is rounded only when it is read: a whole number times a power of two, and how many summands are
  * not finite.
  *
  * What is taken away again leaves nothing behind, however large it was, and the order of the rows does not matter:
  * neither holds for a running sum of rounded numbers.
  */
private[spark] final class ExactSum extends Serializable {
  import ExactSum._

  private var whole: BigInteger = BigInteger.ZERO
  private var exponent: Int = 0
  private var nans: Long = 0
  private var infinities: Long = 0
  private var negativeInfinities: Long = 0

  def clear(): Unit = {
    whole = BigInteger.ZERO
    exponent = 0
    nans = 0
    infinities = 0
    negativeInfinities = 0
  }

  def isFinite: Boolean = nans == 0 && infinities == 0 && negativeInfinities == 0

  def isBlank: Boolean = whole.signum == 0 && isFinite

  /** Adds `value`, or with a weight of -1 takes it away. */
  def add(value: Double, weight: Long): Unit =
    if (java.lang.Double.isFinite(value)) addWhole(BigInteger.valueOf(weight * mantissa(value)), power(value))
    else addSpecial(value, weight)

  /** Adds the square of `value`. */
  def addSquare(value: Double, weight: Long): Unit =
    if (java.lang.Double.isFinite(value)) {
      val root = BigInteger.valueOf(mantissa(value))
      val square = root.multiply(root)
      addWhole(if (weight < 0) square.negate() else square, 2 * power(value))
    } else addSpecial(value * value, weight)

  private def addSpecial(value: Double, weight: Long): Unit =
    if (value.isNaN) nans += weight
    else if (value > 0) infinities += weight
    else negativeInfinities += weight

  private def addWhole(summand: BigInteger, summandExponent: Int): Unit =
    if (summand.signum != 0) {
      if (whole.signum == 0) {
        whole = summand
        exponent = summandExponent
      } else if (summandExponent >= exponent) whole = whole.add(summand.shiftLeft(summandExponent - exponent))
      else {
        whole = whole.shiftLeft(exponent - summandExponent).add(summand)
        exponent = summandExponent
      }
    }

  /** The sum, rounded once. */
  def toDouble: Double =
    if (isFinite) rounded(whole, exponent)
    else if (nans != 0 || (infinities != 0 && negativeInfinities != 0)) Double.NaN
    else if (infinities != 0) Double.PositiveInfinity
    else Double.NegativeInfinity

  def size: Int = if (isBlank) 1 else if (isFinite) 9 + wholeBytes else 33 + wholeBytes

  def write(out: ByteBuffer): Unit =
    if (isBlank) out.put(Blank)
    else {
      out.put(if (isFinite) Finite else Special)
      if (!isFinite) out.putLong(nans).putLong(infinities).putLong(negativeInfinities)
      val bytes = whole.toByteArray
      out.putInt(exponent).putInt(bytes.length).put(bytes)
    }

  def read(in: ByteBuffer): Unit = {
    clear()
    val kind = in.get()
    if (kind == Special) {
      nans = in.getLong()
      infinities = in.getLong()
      negativeInfinities = in.getLong()
    }
    if (kind != Blank) {
      exponent = in.getInt()
      val length = in.getInt()
      whole = new BigInteger(in.array(), in.position(), length)
      in.position(in.position() + length)
    }
  }

  private def wholeBytes: Int = whole.bitLength / 8 + 1
}

private[spark] object ExactSum {
  private val Blank: Byte = 0
  private val Finite: Byte = 1
  private val Special: Byte = 2

  private val FractionBits = 52
  private val Fraction = (1L << FractionBits) - 1
  private val KeptBits = 62

  /** n * sum(x^2) - sum(x)^2 without rounding before the end, divided by `divisor`: the heart of a variance. */
  def variance(n: Long, sum: ExactSum, squares: ExactSum, divisor: Double): Double =
    if (!sum.isFinite) Double.NaN
    else {
      val minuend = squares.whole.multiply(BigInteger.valueOf(n))
      val subtrahend = sum.whole.multiply(sum.whole)
      val exponent = math.min(squares.exponent, 2 * sum.exponent)
      val difference =
        minuend.shiftLeft(squares.exponent - exponent).subtract(subtrahend.shiftLeft(2 * sum.exponent - exponent))
      rounded(difference, exponent) / divisor
    }

  private def biased(value: Double): Int = ((java.lang.Double.doubleToRawLongBits(value) >>> FractionBits) & 0x7ff).toInt

  /** Mantissa with its sign, without trailing zeros: `value` is mantissa(value) * 2 ^ power(value). */
  private def mantissa(value: Double): Long = {
    val magnitude = unsigned(value)
    val short = if (magnitude == 0) 0 else magnitude >> java.lang.Long.numberOfTrailingZeros(magnitude)
    if (value < 0) -short else short
  }

  private def power(value: Double): Int = {
    val magnitude = unsigned(value)
    if (magnitude == 0) 0 else math.max(biased(value), 1) - 1075 + java.lang.Long.numberOfTrailingZeros(magnitude)
  }

  private def unsigned(value: Double): Long = {
    val fraction = java.lang.Double.doubleToRawLongBits(value) & Fraction
    if (biased(value) == 0) fraction else fraction | (1L << FractionBits)
  }

  /** The double next to whole * 2 ^ exponent. */
  private def rounded(whole: BigInteger, exponent: Int): Double = {
    val surplus = whole.bitLength - KeptBits
    if (surplus <= 0) math.scalb(whole.longValue.toDouble, exponent)
    else {
      val magnitude = whole.abs
      // What is cut off must still be able to break a tie.
      val sticky = if (magnitude.getLowestSetBit < surplus) 1L else 0L
      val kept = magnitude.shiftRight(surplus).longValue | sticky
      val scaled = math.scalb(kept.toDouble, exponent + surplus)
      if (whole.signum < 0) -scaled else scaled
    }
  }
}
