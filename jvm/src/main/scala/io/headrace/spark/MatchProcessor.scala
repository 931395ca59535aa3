package io.headrace.spark

import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** A row on its way into the operator. `time` is in epoch microseconds. */
private[spark] final case class MatchInput(time: Long, key: Array[Byte], row: Array[Byte])

/** A match: the time of its last row, and what is read from it. */
private[spark] final case class MatchOutput(time: Long, row: Array[Byte])

/** Place of rows in a run; `variable` is a place or [[Run.All]]. */
private[spark] sealed trait RowPlace

private[spark] object RowPlace {
  final case class First(variable: Int, offset: Int) extends RowPlace
  final case class Last(variable: Int, offset: Int) extends RowPlace

  /** The row `offset` rows before the variable's last one, of any variable. */
  final case class Before(variable: Int, offset: Int) extends RowPlace

  /** All rows of the variable. */
  final case class Each(variable: Int) extends RowPlace
}

/** A value that is read from a run: a column of its rows. */
private[spark] final case class RunValue(place: RowPlace, column: Int, kind: DataType) {

  /** The type of what is read. */
  def result: DataType = place match {
    case _: RowPlace.Each => ArrayType(kind)
    case _                => kind
  }
}

/** Pattern of a partition, and the values read from a match.
  *
  * @param columns     how many a row has
  * @param order       of rows with equal times
  * @param conditions  of each variable: a BOOLEAN over `values`, by place; null for none
  * @param withinMs    how long after its first row a run is over at the latest; 0: never
  */
private[spark] final case class MatchForm(
    pattern: RowPattern,
    columns: Int,
    order: RowOrder,
    values: Seq[RunValue],
    conditions: Seq[Expression],
    withinMs: Long
) {

  /** Number of rows before a run that may be read. */
  val history: Int = values.map(_.place).collect { case RowPlace.Before(_, offset) => offset }.maxOption.getOrElse(0)
}

/** MATCH_RECOGNIZE over a group of keys. See [[MatchRecognize]] for what it means and [[PatternRuns]] for how it is done.
  *
  * Rows wait for the watermark and are then gone through in order, key by key. Of a key is kept what its runs and matches
  * under way have taken, and so many rows before that as may be read.
  *
  * @param ttlMs      for how long (event time) a row is kept at most; 0: for as long as it is needed
  * @param rowFormat  stands for the columns of a row and for all else that gives the state its form
  */
private[spark] final class MatchProcessor(form: MatchForm, ttlMs: Long, rowFormat: Int)
    extends StatefulProcessor[Int, MatchInput, MatchOutput] {
  import MatchProcessor._

  private val agenda = new Agenda(new StateFormat("MATCH_RECOGNIZE", StateVersion, rowFormat))
  private val ttlMicros = MILLISECONDS.toMicros(ttlMs)
  // After how long a run is over; 0: never.
  private val limitMicros = Seq(MILLISECONDS.toMicros(form.withinMs), ttlMicros).filter(_ > 0).minOption.getOrElse(0L)
  @transient private lazy val reader = new RunReader(form)
  @transient private lazy val order = new DueOrder(form)
  @transient private var keys: MapState[Array[Byte], Array[Byte]] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    agenda.open(getHandle)
    keys = getHandle.getMapState("key", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
  }

  override def handleInputRows(group: Int, rows: Iterator[MatchInput], timers: TimerValues): Iterator[MatchOutput] = {
    val loaded = agenda.load()
    val added = rows
      .filter(row => Agenda.millis(row.time) >= loaded.closedMs)
      .map(row => Due(row.time, Row, row.key, row.row))
      .to(ArrayBuffer)
    agenda.store(agenda.add(loaded, added), loaded, new EventTime(getHandle, timers))
    Iterator.empty
  }

  override def handleExpiredTimer(group: Int, timers: TimerValues, expired: ExpiredTimerInfo): Iterator[MatchOutput] = {
    val watermarkMs = timers.getCurrentWatermarkInMs()
    val loaded = agenda.load()
    val (rest, due) = agenda.takeDue(loaded.fired(expired.getExpiryTimeInMs(), watermarkMs), watermarkMs)
    val (output, looks) = (ArrayBuffer.empty[MatchOutput], ArrayBuffer.empty[Due])
    val byKey = mutable.LinkedHashMap.empty[PackedKey, ArrayBuffer[Due]]
    due.foreach(item => byKey.getOrElseUpdate(new PackedKey(item.key), ArrayBuffer.empty) += item)
    byKey.foreachEntry((key, items) => advance(key.bytes, items, MILLISECONDS.toMicros(watermarkMs), output, looks))
    agenda.store(agenda.add(rest, looks), loaded, new EventTime(getHandle, timers))
    output.iterator
  }

  private def advance(
      key: Array[Byte],
      due: ArrayBuffer[Due],
      watermark: Long,
      output: ArrayBuffer[MatchOutput],
      looks: ArrayBuffer[Due]
  ): Unit = {
    val matches = new KeyMatches(key, watermark)
    due.sortInPlace()(order)
    due.foreach { item =>
      if (item.kind == Row) {
        matches.passTime(item.time, output)
        matches.next(item.time, item.payload, output)
      }
    }
    matches.passTime(watermark, output)
    matches.store(looks)
  }

  /** The state of one key. */
  private final class KeyMatches(key: Array[Byte], watermark: Long) {
    private val rows = ArrayBuffer.empty[MatchRow]
    private val runs = new PatternRuns(form.pattern, run => reader.meets(run, rows, forgotten))
    // What comes to be forgotten stays at its place until the key is stored.
    private var forgotten = 0
    // When the key is looked at, by what for: one look of a kind is under way at a time.
    private val lookAt = Array(Never, Never)

    private val stored = keys.getValue(key)
    if (stored != null) {
      val in = ByteBuffer.wrap(stored)
      lookAt.indices.foreach(kind => lookAt(kind) = in.getLong())
      for (_ <- 0 until in.getInt()) rows += new MatchRow(in.getLong(), Accumulator.bytes(in), form.columns)
      runs.read(in)
    }

    /** End what ends by time alone at `micros`. The result does not depend on how often it is called. */
    def passTime(micros: Long, output: ArrayBuffer[MatchOutput]): Unit = {
      if (limitMicros > 0 && !runs.isEmpty) show(output)(runs.end(run => micros - rows(run.start).time >= limitMicros, _))
      if (ttlMicros > 0 && runs.isEmpty)
        while (forgotten < rows.size && micros - rows(forgotten).time >= ttlMicros) forgotten += 1
    }

    def next(micros: Long, row: Array[Byte], output: ArrayBuffer[MatchOutput]): Unit = {
      rows += new MatchRow(micros, row, form.columns)
      show(output)(runs.next(rows.size - 1, _))
    }

    private def show(output: ArrayBuffer[MatchOutput])(find: ArrayBuffer[Run] => Unit): Unit = {
      val matched = ArrayBuffer.empty[Run]
      find(matched)
      matched.foreach(run => output += MatchOutput(rows(run.end - 1).time, reader.read(run, rows, forgotten)))
    }

    def store(looks: ArrayBuffer[Due]): Unit = {
      val from = math.max(forgotten, runs.from(none = rows.size) - form.history)
      if (limitMicros > 0) runs.oldest.foreach(run => look(ForRuns, rows(run).time + limitMicros, looks))
      if (ttlMicros > 0 && form.history > 0 && from < rows.size) look(ForRows, rows.last.time + ttlMicros, looks)
      // While a look is under way, the key remembers it, so that it is the only one.
      if (from < rows.size || lookAt.exists(_ > watermark)) keys.updateValue(key, encode(from))
      else if (stored != null) keys.removeKey(key)
    }

    private def look(kind: Int, micros: Long, looks: ArrayBuffer[Due]): Unit = if (lookAt(kind) <= watermark) {
      // Of the millisecond that the watermark has reached rows may still come.
      lookAt(kind) = -Math.floorDiv(-micros, 1000L) * 1000
      looks += Due(lookAt(kind), Look, key, null)
    }

    private def encode(from: Int): Array[Byte] = {
      val kept = rows.view.drop(from)
      val out = ByteBuffer.allocate(8 * lookAt.length + 4 + kept.map(12 + _.bytes.length).sum + runs.bytes)
      lookAt.foreach(out.putLong)
      out.putInt(kept.size)
      kept.foreach(row => Accumulator.put(out.putLong(row.time), row.bytes))
      runs.write(out, from)
      out.array()
    }
  }
}

private[spark] object MatchProcessor {
  private val StateVersion: Byte = 1

  private final val Look: Byte = 0
  private final val Row: Byte = 1

  // What a look is for: a run may be over; rows before all runs may be forgotten.
  private final val ForRuns = 0
  private final val ForRows = 1

  private val Never = Long.MinValue

  private final class MatchRow(val time: Long, val bytes: Array[Byte], columns: Int) {
    val row: UnsafeRow = new UnsafeRow(columns)
    row.pointTo(bytes, bytes.length)
  }

  /** Order by time, then by the order of the rows; rows equal in both keep their order of arrival. */
  private final class DueOrder(form: MatchForm) extends Ordering[Due] {
    private val ordering = form.order.ordering
    private val (left, right) = (new UnsafeRow(form.columns), new UnsafeRow(form.columns))

    override def compare(one: Due, other: Due): Int = {
      val byTime = java.lang.Long.compare(one.time, other.time)
      if (byTime != 0) byTime
      else if (one.kind == Look || other.kind == Look) one.kind - other.kind
      else {
        left.pointTo(one.payload, one.payload.length)
        right.pointTo(other.payload, other.payload.length)
        ordering.compare(left, right)
      }
    }
  }

  /** Reads values from runs, and asks the variables' conditions, by code generated for it. */
  private final class RunReader(form: MatchForm) {
    private val values = form.values.toArray
    private val getters = values.map(value => InternalRow.getAccessor(value.kind))
    private val conditions = form.conditions.map(bound => if (bound == null) null else Predicate.create(bound)).toArray
    private val reads = form.conditions.map(placesIn(_).toArray).toArray
    private val all = values.indices.toArray
    private val navigations = new GenericInternalRow(values.length)
    private val packing = UnsafeProjection.create(values.map(_.result))

    /** True if the variable that took the last row of `run` may take it; rows before `from` are missing. */
    def meets(run: Run, rows: ArrayBuffer[MatchRow], from: Int): Boolean = {
      val condition = conditions(run.variable)
      condition == null || {
        fill(reads(run.variable), run, rows, from)
        condition.eval(navigations)
      }
    }

    /** All values of `run` as [[PackRow]] bytes. */
    def read(run: Run, rows: ArrayBuffer[MatchRow], from: Int): Array[Byte] = {
      fill(all, run, rows, from)
      packing(navigations).copy().getBytes
    }

    private def fill(places: Array[Int], run: Run, rows: ArrayBuffer[MatchRow], from: Int): Unit = {
      def value(at: Int, row: Int): Any = if (row < from) null else getters(at)(rows(row).row, values(at).column)
      places.foreach { at =>
        navigations(at) = values(at).place match {
          case RowPlace.First(variable, offset) =>
            if (offset < run.count(variable)) value(at, run.first(variable) + offset) else null
          case RowPlace.Last(variable, offset) =>
            val count = run.count(variable)
            if (offset < count) value(at, run.first(variable) + count - 1 - offset) else null
          case RowPlace.Before(variable, offset) =>
            val count = run.count(variable)
            if (count > 0) value(at, run.first(variable) + count - 1 - offset) else null
          case RowPlace.Each(variable) =>
            val first = run.first(variable)
            new GenericArrayData(Array.tabulate[Any](run.count(variable))(row => value(at, first + row)))
        }
      }
    }

    private def placesIn(condition: Expression): Seq[Int] =
      if (condition == null) Nil else condition.collect { case value: BoundReference => value.ordinal }.distinct
  }
}
