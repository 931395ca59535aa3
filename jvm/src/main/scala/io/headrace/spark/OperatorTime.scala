package io.headrace.spark

import org.apache.spark.sql.headrace.EarlyWatermark
import org.apache.spark.sql.streaming.{StatefulProcessorHandle, TimerValues}

/** All that a stateful operator knows of time, which is event time in epoch ms. */
private[spark] trait OperatorTime {

  /** The watermark now; `EarlyWatermark.NoneMs` before the first one is known. */
  def watermarkMs: Long

  /** Calls the operator for the current key once the watermark has reached `ms`; soon, when it has already. */
  def wakeAt(ms: Long): Unit

  /** Takes back a `wakeAt` of the current key. */
  def cancel(ms: Long): Unit
}

private[spark] object OperatorTime {

  /** True if a watermark that is kept in state stands for none; 0 does in state of an earlier release. */
  def isNone(watermarkMs: Long): Boolean = watermarkMs == 0 || watermarkMs == EarlyWatermark.NoneMs
}

/** The time of one call by `transformWithState` in `TimeMode.EventTime`. */
private[spark] final class EventTime(handle: StatefulProcessorHandle, timers: TimerValues) extends OperatorTime {
  override def watermarkMs: Long = timers.getCurrentWatermarkInMs()
  override def wakeAt(ms: Long): Unit = handle.registerTimer(ms)
  override def cancel(ms: Long): Unit = handle.deleteTimer(ms)
}
