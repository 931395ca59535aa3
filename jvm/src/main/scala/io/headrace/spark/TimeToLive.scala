package io.headrace.spark

/** Times at which the state of an untouched key ends, and at which a touched key repeats its rows.
  *
  * Whatever was derived from a key lives in the state of the operators above, or of other queries, and its time to live begins
  * when its row is given. A key that is touched without a change of its rows must give them again, or they end before the key
  * does. It does so at once if it was not touched for half of its time to live, and else at its next wake: half a time to live
  * after it last gave them, at the latest. So the operators above always have the other half left.
  *
  * @param ms       how far the watermark moves on until a key that is not touched ends; 0: never
  * @param repeats  whether anything above has a time to live
  */
final case class TimeToLive(ms: Long, repeats: Boolean) {
  require(ms >= 0, s"expected a time to live of 0 ms (off) or more, found $ms")

  private val stepMs = if (repeats) math.max(ms / 2, 1) else ms

  private[spark] def isOn: Boolean = ms > 0

  /** Return when to look first at a key that was touched now. */
  private[spark] def firstWake(nowMs: Long): Long = nowMs + stepMs

  /** True if a key that is touched now must repeat its rows at once. `touchedMs` is when it was touched before, or Unknown. */
  private[spark] def isStale(touchedMs: Long, nowMs: Long): Boolean =
    repeats && !OperatorTime.isNone(touchedMs) && nowMs - touchedMs >= stepMs

  /** Decide about a key that asked to be looked at at `wakeMs`. */
  private[spark] def look(wakeMs: Long, touchedMs: Long, nowMs: Long): Look =
    // What was touched before any watermark was known counts from the first one on, above as here.
    if (OperatorTime.isNone(touchedMs)) Look(isOver = false, repeats = false, nowMs, nowMs + stepMs)
    else if (touchedMs + ms <= nowMs) Look(isOver = true, repeats = false, touchedMs, touchedMs)
    else if (repeats && touchedMs > wakeMs - stepMs)
      Look(isOver = false, repeats = true, touchedMs, math.min(nowMs + stepMs, touchedMs + ms))
    else Look(isOver = false, repeats = false, touchedMs, touchedMs + ms)
}

object TimeToLive {
  val Forever: TimeToLive = TimeToLive(0, repeats = false)

  /** The time of a key that was never touched. */
  private[spark] val Unknown = 0L
}

/** @param touchedMs  from when the key's time to live counts
  * @param wakeMs     when the key is to be looked at again
  */
private[spark] final case class Look(isOver: Boolean, repeats: Boolean, touchedMs: Long, wakeMs: Long)
