package io.headrace.spark

/** The bytes of a record that is being written, in an array that grows. For one thread. */
private[spark] final class RecordBytes {
  private var bytes = new Array[Byte](256)
  private var size = 0

  def begin(): Unit = size = 0

  def toArray: Array[Byte] = java.util.Arrays.copyOf(bytes, size)

  def byte(value: Int): Unit = {
    room(1)
    bytes(size) = value.toByte
    size += 1
  }

  /** Seven bits a byte, the low ones first. */
  def varint(value: Long): Unit = {
    var left = value
    while ((left & ~0x7fL) != 0) {
      byte((left & 0x7f | 0x80).toInt)
      left >>>= 7
    }
    byte(left.toInt)
  }

  /** Write as `varint` does, with the sign in the lowest bit. */
  def zigzag(value: Long): Unit = varint((value << 1) ^ (value >> 63))

  /** The low `width` bytes, the lowest first. */
  def bits(value: Long, width: Int): Unit = {
    room(width)
    var index = 0
    while (index < width) {
      bytes(size + index) = (value >>> (8 * index)).toByte
      index += 1
    }
    size += width
  }

  def all(value: Array[Byte]): Unit = {
    room(value.length)
    System.arraycopy(value, 0, bytes, size, value.length)
    size += value.length
  }

  /** Write the output of `write` behind its length as a varint. */
  def measured(write: => Unit): Unit = {
    val start = size
    // Most are short: a length of one byte is written into its place.
    byte(0)
    write
    val length = size - start - 1
    val more = (38 - Integer.numberOfLeadingZeros(length | 1)) / 7 - 1
    if (more > 0) {
      room(more)
      System.arraycopy(bytes, start + 1, bytes, start + 1 + more, length)
    }
    size = start
    varint(length.toLong)
    size += length
  }

  private def room(more: Int): Unit =
    if (size + more > bytes.length) bytes = java.util.Arrays.copyOf(bytes, math.max(size + more, bytes.length * 2))
}

/** Ends a query at a row that has no place in its schema. The message is for the driver, in base64 as a [[BadRecord]]'s. */
private[spark] final class Unwritable(reason: String)
    extends RuntimeException(
      s"HEADRACE_UNWRITABLE:${java.util.Base64.getEncoder.encodeToString(reason.getBytes(java.nio.charset.StandardCharsets.UTF_8))}:"
    )
