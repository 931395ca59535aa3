package io.headrace.spark

import java.nio.ByteBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming.{StatefulProcessorHandle, TTLConfig, ValueState}

/** The one value of state that an operator has of each key, for everything small: what an operator keeps in it is up to
  * the operator, what is before it says whose state it is and when the key was last touched.
  *
  * With a time to live a key has one timer. It is not moved when the key is touched, but set anew when it comes too early.
  *
  * @param operator   what the state belongs to, for people
  * @param version    of the operator's state: raise it when the layout changes, so that older state is refused, not misread
  * @param rowFormat  stands for the columns whose bytes are in the state, and for whatever else gives it its form
  * @param ttlMs      a key that was not touched while the watermark moved on by so much is freed; 0: never
  */
private[spark] final class KeyState(operator: String, version: Byte, rowFormat: Int, ttlMs: Long) extends Serializable {
  import KeyState._

  private val format = new StateFormat(operator, version, rowFormat)
  private val headerBytes: Int = StateFormat.Bytes + (if (ttlMs > 0) 16 else 0)
  @transient private var values: ValueState[Array[Byte]] = _
  // Of the key that was loaded last.
  private var touchedMs: Long = 0
  private var timerMs: Long = NoTimer

  def open(handle: StatefulProcessorHandle): Unit = values = handle.getValueState("key", Encoders.BINARY, TTLConfig.NONE)

  /** The operator's part of the current key's state, from the buffer's position to its limit; null when there is none.
    *
    * Throws IllegalStateException for state of another version or of other columns.
    */
  def load(): ByteBuffer = {
    val bytes = values.get()
    timerMs = NoTimer
    if (bytes == null) null
    else {
      val in = ByteBuffer.wrap(bytes)
      format.check(in)
      if (ttlMs > 0) {
        touchedMs = in.getLong()
        timerMs = in.getLong()
      }
      in
    }
  }

  /** A buffer for `size` bytes of new state, to be filled to its end and given to `store`. */
  def allocate(size: Int): ByteBuffer = {
    val out = ByteBuffer.allocate(headerBytes + size)
    format.put(out).position(headerBytes)
  }

  /** Replaces the state of the current key, which must have been loaded before, and marks it as touched. */
  def store(state: ByteBuffer, time: OperatorTime): Unit = {
    if (ttlMs > 0) {
      touchedMs = time.watermarkMs
      if (timerMs == NoTimer) wake(time)
      state.putLong(TouchedAt, touchedMs).putLong(TouchedAt + 8, timerMs)
    }
    values.update(state.array())
  }

  /** Marks the current key as touched, where its state stays as it was loaded. */
  def touch(loaded: ByteBuffer, time: OperatorTime): Unit =
    if (ttlMs > 0 && touchedMs != time.watermarkMs) store(loaded, time)

  /** Frees the state of the current key, which must have been loaded before. */
  def clear(time: OperatorTime): Unit = {
    if (timerMs != NoTimer) time.cancel(timerMs)
    timerMs = NoTimer
    values.clear()
  }

  /** True if the timer that woke the current key ends it; its state is freed then. Only with a time to live. */
  def isOver(time: OperatorTime): Boolean = {
    val state = load()
    state != null && {
      val now = time.watermarkMs
      // What was touched before any watermark was known counts from the first one on.
      if (OperatorTime.isNone(touchedMs)) touchedMs = now
      val over = touchedMs + ttlMs <= now
      if (over) values.clear()
      else {
        wake(time)
        values.update(state.putLong(TouchedAt, touchedMs).putLong(TouchedAt + 8, timerMs).array())
      }
      over
    }
  }

  private def wake(time: OperatorTime): Unit = {
    timerMs = touchedMs + ttlMs
    time.wakeAt(timerMs)
  }
}

private[spark] object KeyState {
  private val NoTimer = Long.MinValue
  private val TouchedAt = StateFormat.Bytes
}
