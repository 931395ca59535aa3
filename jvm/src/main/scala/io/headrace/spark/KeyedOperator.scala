package io.headrace.spark

import org.apache.spark.sql.streaming._

/** A stateful operator of one input. It changes by rows; by time only when a key's time to live ends, unless it says more.
  *
  * @param state  the operator's state of one key; what is large is kept beside it
  * @param ttlMs  the time to live; 0: none, and the operator runs without event time
  */
private[spark] abstract class KeyedOperator[I, O](protected val state: KeyState, ttlMs: Long)
    extends StatefulProcessor[Array[Byte], I, O] {

  /** Declares what the operator keeps beside `state`. */
  protected def open(): Unit = ()

  /** Apply the rows of a key: all rows of the key in a batch, or one of them. */
  protected def change(key: Array[Byte], rows: Iterator[I], time: OperatorTime): Iterator[O]

  /** Frees what the current key has beside `state`. */
  protected def free(): Unit = ()

  /** True if it runs in event time. */
  protected def timed: Boolean = ttlMs > 0

  /** Apply the watermark at a time that the operator asked for. */
  protected def wake(time: OperatorTime): Iterator[O] = {
    if (state.isOver(time)) free()
    Iterator.empty
  }

  override final def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    state.open(getHandle)
    open()
  }

  override final def handleInputRows(key: Array[Byte], rows: Iterator[I], timers: TimerValues): Iterator[O] =
    change(key, rows, if (timed) new EventTime(getHandle, timers) else KeyedOperator.Timeless)

  override final def handleExpiredTimer(key: Array[Byte], timers: TimerValues, expired: ExpiredTimerInfo): Iterator[O] =
    wake(new EventTime(getHandle, timers))
}

private[spark] object KeyedOperator {

  /** The mode to run in: without event time Spark runs no batch for time's sake. */
  def timeMode(ttlMs: Long): TimeMode = {
    require(ttlMs >= 0, s"expected a time to live of 0 ms (off) or more, found $ttlMs")
    if (ttlMs > 0) TimeMode.EventTime() else TimeMode.None()
  }

  /** Time of an operator that needs none. */
  object Timeless extends OperatorTime {
    override def watermarkMs: Long = 0
    override def wakeAt(ms: Long): Unit = ()
    override def cancel(ms: Long): Unit = ()
  }
}
