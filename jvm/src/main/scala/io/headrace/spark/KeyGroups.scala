package io.headrace.spark

import org.apache.spark.sql.Column
import org.apache.spark.sql.functions._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/** Keys in a fixed number of groups, by which an operator is called instead of by key.
  *
  * What Spark does for each key it is called with (sort, timers, an index) is then done once for thousands of keys, and
  * rows that only wait for the watermark are kept in large pieces, whatever their keys. The state of each key stays apart
  * from that of others.
  */
private[spark] object KeyGroups {

  /** Part of the state's layout: another number needs another state. */
  val Count: Int = 64

  /** The first number that Spark hashes to each group: equally many groups for 2, 4 … 64 partitions. */
  private val groups: Array[Int] =
    Array.tabulate(Count)(group => Iterator.from(0).find(number => Math.floorMod(sparkHash(number), Count) == group).get)

  /** The group of a key, to be grouped by. */
  def group(key: Column): Column = get(lit(groups), pmod(xxhash64(key), lit(Count)).cast("int"))

  private def sparkHash(number: Int): Int = Murmur3_x86_32.hashInt(number, 42)
}

/** The bytes of a key or a row, compared as such. */
private[spark] final class PackedKey(val bytes: Array[Byte]) {
  override val hashCode: Int = PackedKey.hash(bytes)

  override def equals(other: Any): Boolean = other match {
    case that: PackedKey => hashCode == that.hashCode && java.util.Arrays.equals(bytes, that.bytes)
    case _               => false
  }
}

private[spark] object PackedKey {

  /** Part of the state's layout, where rows are found by it. */
  def hash(bytes: Array[Byte]): Int = Murmur3_x86_32.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 0)
}
