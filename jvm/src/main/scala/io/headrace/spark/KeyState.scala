package io.headrace.spark

import java.nio.ByteBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming.{StatefulProcessorHandle, TTLConfig, ValueState}

/** The one value of state that an operator has of each key, for everything small: what an operator keeps in it is up to
  * the operator, what is before it says whose state it is and when the key was last touched.
  *
  * With a time to live a key has one timer. It is not moved when the key is touched, but set anew when it fires too early.
  *
  * @param operator   what the state belongs to, for people
  * @param version    of the operator's state: raise it when the layout changes, so that older state is refused, not misread
  * @param rowFormat  stands for the columns whose bytes are in the state, and for whatever else gives it its form
  * @param ttl        when a key that is not touched is freed
  */
private[spark] final class KeyState(operator: String, version: Byte, rowFormat: Int, ttl: TimeToLive) extends Serializable {
  import KeyState._

  private val format = new StateFormat(operator, version, rowFormat)
  private val headerBytes: Int = StateFormat.Bytes + (if (ttl.isOn) 16 else 0)
  @transient private var values: ValueState[Array[Byte]] = _
  // Of the key that was loaded last.
  private var touchedMs: Long = TimeToLive.Unknown
  private var timerMs: Long = NoTimer
  private var stale = false

  def open(handle: StatefulProcessorHandle): Unit = values = handle.getValueState("key", Encoders.BINARY, TTLConfig.NONE)

  /** The operator's part of the current key's state, from the buffer's position to its limit; null when there is none.
    *
    * Throws IllegalStateException for state of another version or of other columns.
    */
  def load(): ByteBuffer = {
    val bytes = values.get()
    timerMs = NoTimer
    touchedMs = TimeToLive.Unknown
    stale = false
    if (bytes == null) null
    else {
      val in = ByteBuffer.wrap(bytes)
      format.check(in)
      if (ttl.isOn) {
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
    if (ttl.isOn) {
      val nowMs = time.watermarkMs
      stale = ttl.isStale(touchedMs, nowMs)
      touchedMs = nowMs
      if (timerMs == NoTimer) wakeAt(ttl.firstWake(nowMs), time)
      state.putLong(TouchedAt, touchedMs).putLong(TouchedAt + 8, timerMs)
    }
    values.update(state.array())
  }

  /** Marks the current key as touched, where its state stays as it was loaded. */
  def touch(loaded: ByteBuffer, time: OperatorTime): Unit =
    if (ttl.isOn && touchedMs != time.watermarkMs) store(loaded, time)

  /** True if the current key, which was touched, must repeat the rows that it shows and did not change. */
  def isStale: Boolean = stale

  /** Frees the state of the current key, which must have been loaded before. */
  def clear(time: OperatorTime): Unit = {
    if (timerMs != NoTimer) time.cancel(timerMs)
    timerMs = NoTimer
    stale = false
    values.clear()
  }

  /** Free the state of the current key if the timer that woke it ends it, else ask for the next one. Null without state. */
  def look(time: OperatorTime): Look = {
    val state = load()
    if (state == null) null
    else {
      val look = ttl.look(timerMs, touchedMs, time.watermarkMs)
      if (look.isOver) values.clear()
      else {
        wakeAt(look.wakeMs, time)
        values.update(state.putLong(TouchedAt, look.touchedMs).putLong(TouchedAt + 8, timerMs).array())
      }
      look
    }
  }

  private def wakeAt(ms: Long, time: OperatorTime): Unit = {
    timerMs = ms
    time.wakeAt(ms)
  }
}

private[spark] object KeyState {
  private val NoTimer = Long.MinValue
  private val TouchedAt = StateFormat.Bytes
}
