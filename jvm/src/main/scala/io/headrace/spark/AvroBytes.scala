package io.headrace.spark

/** The primitives of Avro's binary encoding in the bytes of one record, from `at` on.
  *
  * Unlike Avro's own decoder it never makes room for more than there is: a length is whatever a poisoned record says.
  */
private[spark] final class AvroBytes(bytes: Array[Byte], private var at: Int) {
  def left: Int = bytes.length - at

  def boolean(): Boolean = byte() match {
    case 0     => false
    case 1     => true
    case other => throw new Unreadable(s"expected a boolean of 0 or 1, found $other")
  }

  def long(): Long = {
    var result = 0L
    var shift = 0
    var next = byte()
    while (next < 0) {
      result |= (next & 0x7fL) << shift
      shift += 7
      if (shift > 63) throw new Unreadable("a number is longer than 64 bits")
      next = byte()
    }
    result |= next.toLong << shift
    (result >>> 1) ^ -(result & 1)
  }

  def int(): Int = {
    val number = long()
    if (number.isValidInt) number.toInt else throw new Unreadable(s"expected an int, found the number $number")
  }

  def float(): Float = java.lang.Float.intBitsToFloat(fixedBits(4).toInt)

  def double(): Double = java.lang.Double.longBitsToDouble(fixedBits(8))

  /** The place of the next `size` bytes, which are passed. */
  def take(size: Long): Int = {
    if (size < 0 || size > left) throw AvroBytes.Short
    val first = at
    at += size.toInt
    first
  }

  /** A copy of the next `size` bytes. */
  def fixed(size: Long): Array[Byte] = {
    val first = take(size)
    java.util.Arrays.copyOfRange(bytes, first, at)
  }

  def sized(): Array[Byte] = fixed(long())

  /** The items of an array's or a map's next block; 0: it was the last. */
  def block(): Long = {
    val count = long()
    if (count >= 0) count
    else {
      val _ = long() // the block's size in bytes
      if (count == Long.MinValue) throw AvroBytes.Short
      -count
    }
  }

  private def byte(): Byte = {
    if (at == bytes.length) throw AvroBytes.Short
    at += 1
    bytes(at - 1)
  }

  private def fixedBits(size: Int): Long = {
    val first = take(size)
    var bits = 0L
    var index = size - 1
    while (index >= 0) {
      bits = bits << 8 | bytes(first + index) & 0xffL
      index -= 1
    }
    bits
  }
}

private[spark] object AvroBytes {
  private def Short = new Unreadable("it ends in the midst of a value")
}
