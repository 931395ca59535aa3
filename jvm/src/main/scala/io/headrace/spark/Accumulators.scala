package io.headrace.spark

import java.math.{BigDecimal, BigInteger, RoundingMode}
import java.nio.ByteBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streaming.{MapState, StatefulProcessorHandle, TTLConfig}
import org.apache.spark.sql.types.{Decimal, DecimalType}

/** An aggregate call over one group at a time: it is read from the group's state, changed by rows, and written back.
  *
  * A weight of 1 adds a row, -1 takes one away; a row may be taken away before it is added.
  */
private[spark] abstract class Accumulator extends Serializable {

  /** Declares what it keeps beside the group's state; `name` is its own among the query's calls. */
  def open(handle: StatefulProcessorHandle, name: String): Unit = ()

  /** Makes it that of a group without rows. */
  def clear(): Unit

  def add(row: UnsafeRow, weight: Long): Unit

  /** The call's value, as Spark holds values of its type inside of rows. */
  def result: Any

  /** True if no row contributes. */
  def isBlank: Boolean

  def size: Int
  def write(out: ByteBuffer): Unit
  def read(in: ByteBuffer): Unit

  /** Frees what the current group has beside its state. */
  def free(): Unit = ()
}

private[spark] final class CountOf extends Accumulator {
  private var count = 0L
  override def clear(): Unit = count = 0
  override def add(row: UnsafeRow, weight: Long): Unit = count += weight
  override def result: Any = count
  override def isBlank: Boolean = count == 0
  override def size: Int = 8
  override def write(out: ByteBuffer): Unit = out.putLong(count)
  override def read(in: ByteBuffer): Unit = count = in.getLong()
}

/** SUM of whole numbers, in 128 bits: only a result that is no BIGINT is an error, not what comes before it. */
private[spark] final class WholeSum(name: String, value: Int) extends Accumulator {
  private var count = 0L
  private var high = 0L
  private var low = 0L

  override def clear(): Unit = {
    count = 0
    high = 0
    low = 0
  }

  override def add(row: UnsafeRow, weight: Long): Unit = {
    count += weight
    val summand = row.getLong(value)
    if (weight > 0) {
      low += summand
      high += (summand >> 63) + (if (java.lang.Long.compareUnsigned(low, summand) < 0) 1 else 0)
    } else {
      val borrow = if (java.lang.Long.compareUnsigned(low, summand) < 0) 1 else 0
      low -= summand
      high -= (summand >> 63) + borrow
    }
  }

  override def result: Any =
    if (count == 0) null
    else if (high == low >> 63) low
    else throw Accumulator.overflow(name, "BIGINT")

  override def isBlank: Boolean = count == 0 && high == 0 && low == 0
  override def size: Int = 24
  override def write(out: ByteBuffer): Unit = out.putLong(count).putLong(high).putLong(low)
  override def read(in: ByteBuffer): Unit = {
    count = in.getLong()
    high = in.getLong()
    low = in.getLong()
  }
}

/** SUM or AVG of DECIMALs: exact, and an average is rounded once, half up. */
private[spark] final class DecimalSum(name: String, value: Int, argument: DecimalType, kind: DecimalType, average: Boolean)
    extends Accumulator {
  private var count = 0L
  private var sum = BigInteger.ZERO

  override def clear(): Unit = {
    count = 0
    sum = BigInteger.ZERO
  }

  override def add(row: UnsafeRow, weight: Long): Unit = {
    count += weight
    val decimal = row.getDecimal(value, argument.precision, argument.scale)
    val unscaled =
      if (argument.precision <= Decimal.MAX_LONG_DIGITS) BigInteger.valueOf(decimal.toUnscaledLong)
      else decimal.toJavaBigDecimal.unscaledValue
    sum = if (weight > 0) sum.add(unscaled) else sum.subtract(unscaled)
  }

  override def result: Any =
    if (count == 0) null
    else {
      val total = new BigDecimal(sum, argument.scale)
      val exact =
        if (average) total.divide(BigDecimal.valueOf(count), kind.scale, RoundingMode.HALF_UP)
        else total.setScale(kind.scale, RoundingMode.HALF_UP)
      if (exact.precision > kind.precision) throw Accumulator.overflow(name, kind.sql)
      Decimal(exact, kind.precision, kind.scale)
    }

  override def isBlank: Boolean = count == 0 && sum.signum == 0
  override def size: Int = 12 + sum.bitLength / 8 + 1
  override def write(out: ByteBuffer): Unit = {
    val bytes = sum.toByteArray
    out.putLong(count).putInt(bytes.length).put(bytes)
  }
  override def read(in: ByteBuffer): Unit = {
    count = in.getLong()
    sum = new BigInteger(Accumulator.bytes(in))
  }
}

/** SUM or AVG of DOUBLEs, rounded when it is read. */
private[spark] final class DoubleSum(value: Int, average: Boolean) extends Accumulator {
  private var count = 0L
  private val sum = new ExactSum

  override def clear(): Unit = {
    count = 0
    sum.clear()
  }
  override def add(row: UnsafeRow, weight: Long): Unit = {
    count += weight
    sum.add(row.getDouble(value), weight)
  }
  override def result: Any = if (count == 0) null else if (average) sum.toDouble / count else sum.toDouble
  override def isBlank: Boolean = count == 0 && sum.isBlank
  override def size: Int = 8 + sum.size
  override def write(out: ByteBuffer): Unit = {
    out.putLong(count)
    sum.write(out)
  }
  override def read(in: ByteBuffer): Unit = {
    count = in.getLong()
    sum.read(in)
  }
}

/** A variance, or with `root` a deviation, from the exact sums of the values and of their squares: nothing cancels out,
  * and what is taken away leaves no error behind, as it would from a running mean.
  */
private[spark] final class Variance(value: Int, sample: Boolean, root: Boolean) extends Accumulator {
  private var count = 0L
  private val sum = new ExactSum
  private val squares = new ExactSum

  override def clear(): Unit = {
    count = 0
    sum.clear()
    squares.clear()
  }
  override def add(row: UnsafeRow, weight: Long): Unit = {
    count += weight
    val summand = row.getDouble(value)
    sum.add(summand, weight)
    squares.addSquare(summand, weight)
  }
  override def result: Any = {
    val freedom = if (sample) count - 1 else count
    if (count <= 0 || freedom <= 0) null
    else {
      val variance = ExactSum.variance(count, sum, squares, count.toDouble * freedom)
      if (root) math.sqrt(variance) else variance
    }
  }
  override def isBlank: Boolean = count == 0 && sum.isBlank && squares.isBlank
  override def size: Int = 8 + sum.size + squares.size
  override def write(out: ByteBuffer): Unit = {
    out.putLong(count)
    sum.write(out)
    squares.write(out)
  }
  override def read(in: ByteBuffer): Unit = {
    count = in.getLong()
    sum.read(in)
    squares.read(in)
  }
}

/** `inner` over different values: it sees one when its first row comes, and sees it go with its last row. */
private[spark] final class Distinct(inner: Accumulator, bytes: Int) extends Accumulator {
  @transient private var counts: MapState[Array[Byte], Long] = _
  private var values = 0L

  override def open(handle: StatefulProcessorHandle, name: String): Unit =
    counts = handle.getMapState(name, Encoders.BINARY, Encoders.scalaLong, TTLConfig.NONE)

  override def clear(): Unit = {
    values = 0
    inner.clear()
  }

  override def add(row: UnsafeRow, weight: Long): Unit = {
    val value = row.getBinary(bytes)
    val before = if (values > 0 && counts.containsKey(value)) counts.getValue(value) else 0L
    val after = before + weight
    if (after == 0) counts.removeKey(value) else counts.updateValue(value, after)
    values += (if (after == 0) 0 else 1) - (if (before == 0) 0 else 1)
    if (before <= 0 && after > 0) inner.add(row, 1)
    else if (before > 0 && after <= 0) inner.add(row, -1)
  }

  override def result: Any = inner.result
  override def isBlank: Boolean = values == 0
  override def size: Int = 8 + inner.size
  override def write(out: ByteBuffer): Unit = inner.write(out.putLong(values))
  override def read(in: ByteBuffer): Unit = {
    values = in.getLong()
    inner.read(in)
  }
  override def free(): Unit = counts.clear()
}

private[spark] object Accumulator {

  def bytes(in: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](in.getInt())
    in.get(bytes)
    bytes
  }

  def put(out: ByteBuffer, bytes: Array[Byte]): Unit = out.putInt(bytes.length).put(bytes)

  /** An error that the driver reports as the data's fault. */
  def overflow(name: String, kind: String): ArithmeticException =
    new ArithmeticException(s"$name does not fit into $kind")
}
