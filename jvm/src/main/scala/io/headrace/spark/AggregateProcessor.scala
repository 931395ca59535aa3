package io.headrace.spark

import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.DataType

/** A row that changes a group. `time` is its event time in microseconds. */
private[spark] final case class AggregateInput(op: Byte, time: Long, arguments: Array[Byte])

/** Result of a group that is shown, 1, or no longer shown, -1, or still shown, 0. */
private[spark] final case class AggregateOutput(op: Byte, time: Long, key: Array[Byte], row: Array[Byte])

/** Definition of an aggregation.
  *
  * @param types      of the results
  * @param arguments  how many columns the arguments of a row have
  * @param global     whether there is one group for all rows, which stays when it has none
  * @param signed     whether what is no longer shown comes out at every change, and not at the group's end only
  */
private[spark] final case class AggregateForm(
    calls: Array[PlannedCall],
    types: Array[DataType],
    arguments: Int,
    global: Boolean,
    insertOnly: Boolean,
    signed: Boolean,
    timed: Boolean
)

/** The aggregates of one group: state is how many rows it has, the time that goes with what is shown, and the calls'. */
private[spark] final class AggregateProcessor(state: KeyState, ttl: TimeToLive, form: AggregateForm)
    extends KeyedOperator[AggregateInput, AggregateOutput](state, ttl) {
  import ChangelogAggregate.NoTime

  private val calls = form.calls
  @transient private lazy val arguments = new UnsafeRow(form.arguments)
  @transient private lazy val projection = UnsafeProjection.create(form.types)
  @transient private lazy val results = new GenericInternalRow(form.types.length)

  // Of the group at hand.
  private var rowCount = 0L
  private var shownTime = NoTime

  override protected def open(): Unit =
    for (at <- calls.indices) calls(at).accumulator.open(getHandle, s"call$at")

  override protected def free(): Unit = calls.foreach(_.accumulator.free())

  override protected def change(
      key: Array[Byte],
      rows: Iterator[AggregateInput],
      time: OperatorTime
  ): Iterator[AggregateOutput] = {
    val loaded = state.load()
    val changes = rows.filter(_.op != 0)
    // Without calls a group that is there already stays as it is.
    if (changes.isEmpty || loaded != null && form.insertOnly && calls.isEmpty) {
      if (loaded != null) state.touch(loaded, time)
      if (state.isStale) repeat(key) else Iterator.empty
    } else {
      read(loaded)
      val before = if (loaded != null && isShown) show() else null
      val beforeTime = shownTime
      val newest = add(changes)
      val after = if (isShown) show() else null
      val changed = !Arrays.equals(before, after)
      if (changed) shownTime = newest
      store(time, known = loaded != null)
      if (changed) outputs(key, before, beforeTime, after, newest)
      else if (state.isStale) repeated(key)
      else Iterator.empty
    }
  }

  override protected def repeat(key: Array[Byte]): Iterator[AggregateOutput] = {
    read(state.load())
    repeated(key)
  }

  private def repeated(key: Array[Byte]): Iterator[AggregateOutput] =
    if (isShown) Iterator.single(AggregateOutput(0, shownTime, key, show())) else Iterator.empty

  private def read(loaded: ByteBuffer): Unit =
    if (loaded == null) clear()
    else {
      rowCount = loaded.getLong()
      if (form.timed) shownTime = loaded.getLong()
      calls.foreach(_.accumulator.read(loaded))
    }

  private def clear(): Unit = {
    rowCount = 0
    shownTime = NoTime
    calls.foreach(_.accumulator.clear())
  }

  /** Adds the rows to the calls; returns the newest of their times. */
  private def add(rows: Iterator[AggregateInput]): Long = {
    var newest = NoTime
    while (rows.hasNext) {
      val row = rows.next()
      rowCount += row.op
      if (row.time > newest) newest = row.time
      arguments.pointTo(row.arguments, row.arguments.length)
      var at = 0
      while (at < calls.length) {
        val call = calls(at)
        if (call.counts < 0 || arguments.getBoolean(call.counts)) call.accumulator.add(arguments, row.op)
        at += 1
      }
    }
    newest
  }

  private def isShown: Boolean = rowCount > 0 || (form.global && rowCount == 0)

  private def show(): Array[Byte] = {
    var at = 0
    while (at < calls.length) {
      results.update(at, calls(at).accumulator.result)
      at += 1
    }
    projection(results).copy().getBytes
  }

  private def store(time: OperatorTime, known: Boolean): Unit = {
    val isBlank = rowCount == 0 && !form.global && calls.forall(_.accumulator.isBlank)
    if (!isBlank) {
      val size = calls.foldLeft(if (form.timed) 16 else 8)((sum, call) => sum + call.accumulator.size)
      val out = state.allocate(size).putLong(rowCount)
      if (form.timed) out.putLong(shownTime)
      calls.foreach(_.accumulator.write(out))
      state.store(out, time)
    } else if (known) state.clear(time) // What is beside it went with its last rows.
  }

  private def outputs(
      key: Array[Byte],
      before: Array[Byte],
      beforeTime: Long,
      after: Array[Byte],
      newest: Long
  ): Iterator[AggregateOutput] = {
    val out = new ArrayBuffer[AggregateOutput](2)
    if (before != null && form.signed) out += AggregateOutput(-1, beforeTime, key, before)
    else if (before != null && after == null) out += AggregateOutput(-1, newest, key, before)
    if (after != null) out += AggregateOutput(1, newest, key, after)
    out.iterator
  }
}
