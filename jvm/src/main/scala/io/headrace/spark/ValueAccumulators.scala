package io.headrace.spark

import java.nio.ByteBuffer
import java.util.{Arrays, LinkedHashMap}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.{GenericArrayData, TypeUtils}
import org.apache.spark.sql.streaming.{MapState, StatefulProcessorHandle, TTLConfig}
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

/** Values as the bytes of a row of one column, and back. */
private[spark] final class Values(kind: DataType) extends Serializable {
  @transient private lazy val ordering = TypeUtils.getInterpretedOrdering(kind)

  def of(bytes: Array[Byte]): Any = {
    val row = new UnsafeRow(1)
    row.pointTo(bytes, bytes.length)
    row.get(0, kind)
  }

  def compare(left: Array[Byte], right: Array[Byte]): Int = ordering.compare(of(left), of(right))
}

/** MIN, MAX, FIRST_VALUE or LAST_VALUE of rows that are never taken away: the one value that counts.
  *
  * @param replaces  whether a new value, given first, takes the place of the one that is kept
  */
private[spark] final class OneValue(bytes: Int, values: Values, replaces: (Array[Byte], Array[Byte]) => Boolean)
    extends Accumulator {
  private var kept: Array[Byte] = _

  override def clear(): Unit = kept = null
  override def add(row: UnsafeRow, weight: Long): Unit = {
    val value = row.getBinary(bytes)
    if (kept == null || replaces(value, kept)) kept = value
  }
  override def result: Any = if (kept == null) null else values.of(kept)
  override def isBlank: Boolean = kept == null
  override def size: Int = 4 + (if (kept == null) 0 else kept.length)
  override def write(out: ByteBuffer): Unit =
    if (kept == null) out.putInt(0) else Accumulator.put(out, kept)
  override def read(in: ByteBuffer): Unit = {
    val bytes = Accumulator.bytes(in)
    kept = if (bytes.isEmpty) null else bytes
  }
}

/** MIN or MAX of rows that may be taken away: all different values with their counts beside the group's state, the best
  * few of them in it. Only when all of those are gone the others are looked through.
  */
private[spark] final class Extreme(bytes: Int, values: Values, greatest: Boolean) extends Accumulator {
  @transient private var counts: MapState[Array[Byte], Long] = _
  private var known = 0L // values with a count that is not 0
  private var present = 0L // values with a count above 0
  private val best = ArrayBuffer.empty[Array[Byte]] // the first in order

  override def open(handle: StatefulProcessorHandle, name: String): Unit =
    counts = handle.getMapState(name, Encoders.BINARY, Encoders.scalaLong, TTLConfig.NONE)

  override def clear(): Unit = {
    known = 0
    present = 0
    best.clear()
  }

  override def add(row: UnsafeRow, weight: Long): Unit = {
    val value = row.getBinary(bytes)
    val before = if (known > 0 && counts.containsKey(value)) counts.getValue(value) else 0L
    val after = before + weight
    if (after == 0) counts.removeKey(value) else counts.updateValue(value, after)
    known += (if (after == 0) 0 else 1) - (if (before == 0) 0 else 1)
    if (before <= 0 && after > 0) {
      if (best.size == present || (best.nonEmpty && precedes(value, best.last))) keep(value)
      present += 1
    } else if (before > 0 && after <= 0) {
      val at = best.indexWhere(Arrays.equals(_, value))
      if (at >= 0) best.remove(at)
      present -= 1
    }
  }

  override def result: Any =
    if (present == 0) null
    else {
      if (best.isEmpty) counts.iterator().foreach { case (value, count) =>
        if (count > 0 && (best.size < Extreme.Kept || precedes(value, best.last))) keep(value)
      }
      values.of(best.head)
    }

  private def keep(value: Array[Byte]): Unit = {
    var at = best.size
    while (at > 0 && precedes(value, best(at - 1))) at -= 1
    best.insert(at, value)
    if (best.size > Extreme.Kept) best.dropRightInPlace(1)
  }

  private def precedes(left: Array[Byte], right: Array[Byte]): Boolean = {
    val order = values.compare(left, right)
    if (greatest) order > 0 else order < 0
  }

  override def isBlank: Boolean = known == 0
  override def size: Int = 20 + best.foldLeft(0)((sum, value) => sum + 4 + value.length)
  override def write(out: ByteBuffer): Unit = {
    out.putLong(known).putLong(present).putInt(best.size)
    best.foreach(Accumulator.put(out, _))
  }
  override def read(in: ByteBuffer): Unit = {
    best.clear()
    known = in.getLong()
    present = in.getLong()
    for (_ <- 0 until in.getInt()) best += Accumulator.bytes(in)
  }
  override def free(): Unit = counts.clear()
}

private[spark] object Extreme {
  private val Kept = 8
}

/** Function of a group's values in their order of arrival. */
private[spark] sealed trait Gathering extends Serializable {
  def apply(values: Array[Any]): Any
}

private[spark] object Gathering {
  case object All extends Gathering {
    override def apply(values: Array[Any]): Any = new GenericArrayData(values)
  }
  case object First extends Gathering {
    override def apply(values: Array[Any]): Any = if (values.isEmpty) null else values.head
  }
  case object Last extends Gathering {
    override def apply(values: Array[Any]): Any = if (values.isEmpty) null else values.last
  }
  /** Values are a text and what goes before it, where another one does. */
  case object Texts extends Gathering {
    override def apply(values: Array[Any]): Any =
      if (values.isEmpty) null
      else {
        val parts = new Array[UTF8String](2 * values.length - 1)
        for (n <- values.indices) {
          val entry = values(n).asInstanceOf[InternalRow]
          if (n > 0) parts(2 * n - 1) = entry.getUTF8String(1)
          parts(2 * n) = entry.getUTF8String(0)
        }
        UTF8String.concat(parts: _*)
      }
  }
}

/** Every value as often as it came; of equal ones that which came first goes first. */
private[spark] final class ValueList(bytes: Int, values: Values, gathering: Gathering) extends Accumulator {
  private val entries = ArrayBuffer.empty[Array[Byte]]
  private val debts = ArrayBuffer.empty[Array[Byte]] // taken away before they came

  override def clear(): Unit = {
    entries.clear()
    debts.clear()
  }

  override def add(row: UnsafeRow, weight: Long): Unit = {
    val value = row.getBinary(bytes)
    val (counterparts, own) = if (weight > 0) (debts, entries) else (entries, debts)
    val at = counterparts.indexWhere(Arrays.equals(_, value))
    if (at >= 0) counterparts.remove(at) else own += value
  }

  override def result: Any = gathering(entries.iterator.map(values.of).toArray)
  override def isBlank: Boolean = entries.isEmpty && debts.isEmpty
  override def size: Int = 8 + (entries.iterator ++ debts).map(4 + _.length).sum
  override def write(out: ByteBuffer): Unit = Seq(entries, debts).foreach { list =>
    out.putInt(list.size)
    list.foreach(Accumulator.put(out, _))
  }
  override def read(in: ByteBuffer): Unit = Seq(entries, debts).foreach { list =>
    list.clear()
    for (_ <- 0 until in.getInt()) list += Accumulator.bytes(in)
  }
}

/** Every different value once, in the order in which they came. */
private[spark] final class ValueSet(bytes: Int, values: Values, gathering: Gathering) extends Accumulator {
  @transient private lazy val counts = new LinkedHashMap[ByteBuffer, java.lang.Long]

  override def clear(): Unit = counts.clear()

  override def add(row: UnsafeRow, weight: Long): Unit = {
    val value = ByteBuffer.wrap(row.getBinary(bytes))
    val before: Long = counts.getOrDefault(value, 0L)
    // One that comes back comes last.
    if (before <= 0) counts.remove(value)
    if (before + weight == 0) counts.remove(value) else counts.put(value, before + weight)
  }

  override def result: Any = {
    val present = ArrayBuffer.empty[Any]
    counts.forEach((value, count) => if (count > 0) present += values.of(value.array()))
    gathering(present.toArray)
  }

  override def isBlank: Boolean = counts.isEmpty
  override def size: Int = {
    var sum = 4
    counts.forEach((value, _) => sum += 12 + value.array().length)
    sum
  }
  override def write(out: ByteBuffer): Unit = {
    out.putInt(counts.size)
    counts.forEach((value, count) => Accumulator.put(out.putLong(count), value.array()))
  }
  override def read(in: ByteBuffer): Unit = {
    counts.clear()
    for (_ <- 0 until in.getInt()) {
      val count = in.getLong()
      counts.put(ByteBuffer.wrap(Accumulator.bytes(in)), count)
    }
  }
}
