package io.headrace.spark

import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.streaming._

/** A row on its way into an operator. `time` is in epoch microseconds; `row` is what the operator reads, packed. */
private[spark] final case class WaitingRow(time: Long, key: Array[Byte], row: Array[Byte])

/** Operator over groups of keys whose rows wait for the watermark and are then gone through in order of time, key by key.
  *
  * A row that the watermark had passed when it came is dropped.
  *
  * @param waitMicros  how long after its time a row is due
  */
private[spark] abstract class WaitingRowsProcessor[O](format: StateFormat, waitMicros: Long)
    extends StatefulProcessor[Int, WaitingRow, O] {
  import WaitingRowsProcessor._

  private val agenda = new Agenda(format)

  /** Opens the operator's own state. */
  protected def open(handle: StatefulProcessorHandle): Unit

  /** Takes what is due of a key: rows ([[Row]], `waitMicros` after their time), and looks at the key ([[Look]]) that were asked for.
    *
    * @param watermark  in microseconds
    * @param output     for the results
    * @param looks      for the looks to come
    */
  protected def advance(key: Array[Byte], due: ArrayBuffer[Due], watermark: Long, output: ArrayBuffer[O], looks: ArrayBuffer[Due]): Unit

  override final def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    agenda.open(getHandle)
    open(getHandle)
  }

  override final def handleInputRows(group: Int, rows: Iterator[WaitingRow], timers: TimerValues): Iterator[O] = {
    val loaded = agenda.load()
    val added = rows
      .filter(row => Agenda.millis(row.time) >= loaded.closedMs)
      .map(row => Due(row.time + waitMicros, Row, row.key, row.row))
      .to(ArrayBuffer)
    agenda.store(agenda.add(loaded, added), loaded, new EventTime(getHandle, timers))
    Iterator.empty
  }

  override final def handleExpiredTimer(group: Int, timers: TimerValues, expired: ExpiredTimerInfo): Iterator[O] = {
    val watermarkMs = timers.getCurrentWatermarkInMs()
    val loaded = agenda.load()
    val (rest, due) = agenda.takeDue(loaded.fired(expired.getExpiryTimeInMs(), watermarkMs), watermarkMs)
    val (output, looks) = (new ArrayBuffer[O](due.size), ArrayBuffer.empty[Due])
    val byKey = mutable.LinkedHashMap.empty[PackedKey, ArrayBuffer[Due]]
    due.foreach(item => byKey.getOrElseUpdate(new PackedKey(item.key), ArrayBuffer.empty) += item)
    byKey.foreachEntry((key, items) => advance(key.bytes, items, MILLISECONDS.toMicros(watermarkMs), output, looks))
    agenda.store(agenda.add(rest, looks), loaded, new EventTime(getHandle, timers))
    output.iterator
  }
}

private[spark] object WaitingRowsProcessor {
  // Kinds of what is due; of equal times the smaller comes first.
  final val Look: Byte = 0
  final val Row: Byte = 1
}
