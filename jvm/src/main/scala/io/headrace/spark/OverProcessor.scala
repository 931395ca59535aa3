package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types.DataType

/** A row, and the results of the calls for it. */
private[spark] final case class OverOutput(row: Array[Byte], results: Array[Byte])

/** A call and the place of its result. */
private[spark] final case class PlacedCall(at: Int, call: FrameCall)

/** A frame that ends with the current row.
  *
  * @param byRows     whether it is counted in rows; else in time, and rows of one time are in each other's frames
  * @param preceding  how many rows, or microseconds, before the current row it begins; -1: with the first row
  */
private[spark] final case class FrameForm(byRows: Boolean, preceding: Long, calls: Array[PlacedCall]) {
  def isBounded: Boolean = preceding >= 0
  def readsRows: Boolean = calls.exists(_.call.readsRows)
}

/** @param results    their types
  * @param arguments  how many columns the calls read
  */
private[spark] final case class OverForm(frames: Array[FrameForm], results: Array[DataType], arguments: Int) {

  /** Time after its last row at which a partition is as one without rows; 0: never. */
  def expiryMicros(ttlMicros: Long): Long =
    if (frames.forall(frame => frame.isBounded && !frame.byRows)) frames.map(_.preceding).max + 1 else ttlMicros
}

/** Window functions over a group of keys. See [[OverAggregate]] for what it means.
  *
  * Rows wait for the watermark and then enter their frames in order, key by key. Of a key is kept what its calls need of the
  * rows that are in its frames.
  *
  * @param expiryMicros  how long after its last row a key is forgotten; 0: never
  * @param rowFormat     stands for the columns of a row and for all else that gives the state its form
  */
private[spark] final class OverProcessor(form: OverForm, expiryMicros: Long, rowFormat: Int)
    extends WaitingRowsProcessor[OverOutput](new StateFormat("OVER", OverProcessor.StateVersion, rowFormat), OverProcessor.Wait) {
  import OverProcessor._
  import WaitingRowsProcessor._

  @transient private var partition: Partition = _

  override protected def open(handle: StatefulProcessorHandle): Unit = partition = new Partition(form, handle)

  /** Takes what is due of a key, in order of time. A key that expires has one look under way, which ends it or is put off. */
  override protected def advance(
      key: Array[Byte],
      due: ArrayBuffer[Due],
      watermark: Long,
      output: ArrayBuffer[OverOutput],
      looks: ArrayBuffer[Due]
  ): Unit = {
    val isNew = partition.load(key)
    var at = 0
    while (at < due.size) {
      var end = at
      while (end < due.size && due(end).time == due(at).time && due(end).kind == due(at).kind) end += 1
      if (due(at).kind == Row) {
        val micros = due(at).time - Wait
        if (expiryMicros > 0 && !partition.isEmpty && micros - partition.lastTime >= expiryMicros) partition.clear()
        partition.add(micros, due, at, end, output)
      }
      at = end
    }
    val needsLook = expiryMicros > 0 && (isNew || due.exists(_.kind == Look))
    if (needsLook && watermark - partition.lastTime >= expiryMicros) partition.remove()
    else {
      partition.store()
      if (needsLook) {
        val end = -Math.floorDiv(-(partition.lastTime + expiryMicros), 1000L) * 1000
        looks += Due(end, Look, key, null)
      }
    }
  }
}

private[spark] object OverProcessor {
  private val StateVersion: Byte = 1

  // Of the millisecond that the watermark has reached rows may still come, and they are in the frames of its other rows.
  private final val Wait = 1000L

  /** The frames of one key at a time. */
  private final class Partition(form: OverForm, handle: StatefulProcessorHandle) {
    private val keys = handle.getMapState("key", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
    private val chunks = handle.getMapState("rows", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
    private val frames = form.frames.zipWithIndex.map { case (frame, place) => new Frame(frame, place) }
    private val (byTime, byRows) = frames.partition(!_.form.byRows)
    private val payload = new UnsafeRow(2)
    private val arguments = new UnsafeRow(form.arguments)
    private val results = new GenericInternalRow(form.results.length)
    private val projection = UnsafeProjection.create(form.results)
    private var key: Array[Byte] = _
    private var isStored = false
    private var newest = Never

    /** Time of the last row. */
    def lastTime: Long = newest

    def isEmpty: Boolean = newest == Never

    /** True if nothing is known of the key. */
    def load(of: Array[Byte]): Boolean = {
      key = of
      frames.foreach(_.open(key))
      val bytes = keys.getValue(key)
      isStored = bytes != null
      newest = Never
      if (isStored) {
        val in = ByteBuffer.wrap(bytes)
        newest = in.getLong()
        frames.foreach(_.read(in))
      }
      !isStored
    }

    /** Adds the rows of one time, from `from` to before `until`, and gives each its results. */
    def add(micros: Long, rows: ArrayBuffer[Due], from: Int, until: Int, output: ArrayBuffer[OverOutput]): Unit = {
      newest = micros
      if (byTime.nonEmpty) {
        var at = from
        while (at < until) {
          val bytes = read(rows(at))
          byTime.foreach(_.enter(micros, bytes, arguments))
          at += 1
        }
        byTime.foreach(_.show(arguments, results))
      }
      var at = from
      while (at < until) {
        if (byRows.nonEmpty) {
          val bytes = read(rows(at))
          byRows.foreach { frame =>
            frame.enter(micros, bytes, arguments)
            frame.show(arguments, results)
          }
        } else payload.pointTo(rows(at).payload, rows(at).payload.length)
        output += OverOutput(payload.getBinary(1), projection(results).copy().getBytes)
        at += 1
      }
    }

    private def read(row: Due): Array[Byte] = {
      payload.pointTo(row.payload, row.payload.length)
      val bytes = payload.getBinary(0)
      arguments.pointTo(bytes, bytes.length)
      bytes
    }

    def clear(): Unit = {
      frames.foreach(_.clear())
      newest = Never
    }

    def remove(): Unit = {
      clear()
      if (isStored) keys.removeKey(key)
    }

    def store(): Unit = {
      frames.foreach(_.settle())
      val out = ByteBuffer.allocate(8 + frames.iterator.map(_.size).sum).putLong(newest)
      frames.foreach(_.write(out))
      keys.updateValue(key, out.array())
    }

    /** The rows of a frame that has a beginning, and the calls over it. */
    private final class Frame(val form: FrameForm, place: Int) {
      private val rows = new FrameRows(Partition.this.form.arguments, place, chunks)
      private val calls = form.calls
      private var entered = 0L

      def open(key: Array[Byte]): Unit = {
        rows.open(key)
        reset()
      }

      private def reset(): Unit = {
        entered = 0
        calls.foreach(_.call.clear())
      }

      def clear(): Unit = {
        rows.clear()
        reset()
      }

      def enter(micros: Long, bytes: Array[Byte], row: UnsafeRow): Unit = {
        if (form.isBounded) {
          if (form.byRows) while (rows.count > form.preceding) leave()
          else while (rows.count > 0 && rows.oldestTime < micros - form.preceding) leave()
          rows.enter(micros, if (form.readsRows) bytes else NoBytes)
        }
        var at = 0
        while (at < calls.length) {
          calls(at).call.enter(row, entered)
          at += 1
        }
        entered += 1
      }

      private def leave(): Unit = {
        val row = if (form.readsRows) rows.oldest else null
        calls.foreach(_.call.leave(row, entered - rows.count))
        rows.leave()
      }

      def show(row: UnsafeRow, results: GenericInternalRow): Unit = {
        var at = 0
        while (at < calls.length) {
          results.update(calls(at).at, calls(at).call.result(row, rows))
          at += 1
        }
      }

      def settle(): Unit = if (form.isBounded) rows.settle()

      def size: Int = 8 + (if (form.isBounded) rows.size else 0) + calls.iterator.map(_.call.size).sum

      def write(out: ByteBuffer): Unit = {
        out.putLong(entered)
        if (form.isBounded) rows.write(out)
        calls.foreach(_.call.write(out))
      }

      def read(in: ByteBuffer): Unit = {
        entered = in.getLong()
        if (form.isBounded) rows.read(in)
        calls.foreach(_.call.read(in))
      }
    }
  }

  private val Never = Long.MinValue
  private val NoBytes = Array.emptyByteArray
}
