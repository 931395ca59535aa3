package io.headrace.spark

import org.apache.spark.sql.streaming._

/** A stateful operator of one input. It changes by rows; by time only when a key's time to live ends, unless it says more.
  *
  * With a time to live, rows whose sign is 0 say that a row is still there: they touch the key and change nothing.
  *
  * @param state  the operator's state of one key; what is large is kept beside it
  * @param ttl    without one the operator runs without event time
  */
private[spark] abstract class KeyedOperator[I, O](protected val state: KeyState, ttl: TimeToLive)
    extends StatefulProcessor[Array[Byte], I, O] {

  /** Declares what the operator keeps beside `state`. */
  protected def open(): Unit = ()

  /** Apply the rows of a key: all rows of the key in a batch, or one of them. */
  protected def change(key: Array[Byte], rows: Iterator[I], time: OperatorTime): Iterator[O]

  /** Frees what the current key has beside `state`. */
  protected def free(): Unit = ()

  /** True if it runs in event time. */
  protected def timed: Boolean = ttl.isOn

  /** Rows that the current key shows, with 0 as their sign; its state is to be loaded. */
  protected def repeat(key: Array[Byte]): Iterator[O]

  /** Apply the watermark at a time that the operator asked for. */
  protected def wake(key: Array[Byte], time: OperatorTime): Iterator[O] = {
    val look = state.look(time)
    if (look != null && look.isOver) free()
    if (look != null && look.repeats) repeat(key) else Iterator.empty
  }

  override final def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    state.open(getHandle)
    open()
  }

  override final def handleInputRows(key: Array[Byte], rows: Iterator[I], timers: TimerValues): Iterator[O] =
    change(key, rows, if (timed) new EventTime(getHandle, timers) else KeyedOperator.Timeless)

  override final def handleExpiredTimer(key: Array[Byte], timers: TimerValues, expired: ExpiredTimerInfo): Iterator[O] =
    wake(key, new EventTime(getHandle, timers))
}

private[spark] object KeyedOperator {

  /** The mode to run in: without event time Spark runs no batch for time's sake. */
  def timeMode(ttl: TimeToLive): TimeMode = if (ttl.isOn) TimeMode.EventTime() else TimeMode.None()

  /** Time of an operator that needs none. */
  object Timeless extends OperatorTime {
    override def watermarkMs: Long = 0
    override def wakeAt(ms: Long): Unit = ()
    override def cancel(ms: Long): Unit = ()
  }
}
