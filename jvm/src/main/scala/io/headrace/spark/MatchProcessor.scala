package io.headrace.spark

import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.collection.immutable.BitSet
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A match, or a row of it: its time, and what is read from it. */
private[spark] final case class MatchOutput(time: Long, row: Array[Byte])

/** Place of rows in a run. `variables` are places, or [[Run.All]]. */
private[spark] sealed trait RowPlace

private[spark] object RowPlace {
  final case class First(variables: BitSet, offset: Int) extends RowPlace
  final case class Last(variables: BitSet, offset: Int) extends RowPlace

  /** The row `offset` rows before the last one of the variables, of any variable. */
  final case class Before(variables: BitSet, offset: Int) extends RowPlace

  /** All rows of the variables. */
  final case class Each(variables: BitSet) extends RowPlace

  /** None: the number of the match. */
  case object Number extends RowPlace
}

/** A value that is read from a run.
  *
  * @param column  a column of its rows; [[RunValue.Classifier]]: the name of the variable that has taken the row
  * @param whole   whether it is read from the whole match, although it is shown with one of its rows
  */
private[spark] final case class RunValue(place: RowPlace, column: Int, kind: DataType, whole: Boolean) {

  /** The type of what is read. */
  def result: DataType = place match {
    case _: RowPlace.Each => ArrayType(kind)
    case _                => kind
  }

  /** True if, as the condition of `variable` reads it, it is the same for all runs of one start whose last row it is. */
  def isOfRow(variable: Int): Boolean = place match {
    case RowPlace.Number                => false
    case RowPlace.First(variables, _)   => variables == Run.All && column != RunValue.Classifier
    case RowPlace.Each(variables)       => variables == Run.All && column != RunValue.Classifier
    case RowPlace.Last(variables, 0)    => variables == Run.All || variables(variable)
    case RowPlace.Last(variables, _)    => variables == Run.All && column != RunValue.Classifier
    case RowPlace.Before(variables, _)  => (variables == Run.All || variables(variable)) && column != RunValue.Classifier
  }
}

private[spark] object RunValue {
  val Classifier: Int = -1
}

/** Pattern of a partition, and the values read from a match.
  *
  * @param columns     how many a row has
  * @param order       of rows with equal times
  * @param variables   their names, by place
  * @param conditions  of each variable: a BOOLEAN over `values`, by place; null for none
  * @param withinMs    how long after its first row a run is over at the latest; 0: never
  * @param allRows     whether each row of a match is shown, else the match once
  */
private[spark] final case class MatchForm(
    pattern: RowPattern,
    skip: Skip,
    columns: Int,
    order: RowOrder,
    values: Seq[RunValue],
    variables: Seq[String],
    conditions: Seq[Expression],
    withinMs: Long,
    allRows: Boolean
) {

  /** Number of rows before a run that may be read. */
  val history: Int = values.map(_.place).collect { case RowPlace.Before(_, offset) => offset }.maxOption.getOrElse(0)

  /** True if matches are counted. */
  val numbered: Boolean = values.exists(_.place == RowPlace.Number)
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
    extends WaitingRowsProcessor[MatchOutput](
      new StateFormat("MATCH_RECOGNIZE", MatchProcessor.StateVersion, rowFormat),
      waitMicros = 0
    ) {
  import MatchProcessor._
  import WaitingRowsProcessor._

  private val ttlMicros = MILLISECONDS.toMicros(ttlMs)
  // After how long a run is over; 0: never.
  private val limitMicros = Seq(MILLISECONDS.toMicros(form.withinMs), ttlMicros).filter(_ > 0).minOption.getOrElse(0L)
  @transient private lazy val reader = new RunReader(form)
  @transient private lazy val order = new DueOrder(form)
  @transient private var keys: MapState[Array[Byte], Array[Byte]] = _

  override protected def open(handle: StatefulProcessorHandle): Unit =
    keys = handle.getMapState("key", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)

  override protected def advance(
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
    private val runs = new PatternRuns(form.pattern, form.skip, run => reader.meets(run, rows, forgotten))
    // What comes to be forgotten stays at its place until the key is stored.
    private var forgotten = 0
    // When the key is looked at, by what for: one look of a kind is under way at a time.
    private val lookAt = Array(Never, Never)
    // How many matches there were, and the time of the last row.
    private var (matched, newest) = (0L, Never)

    private val stored = keys.getValue(key)
    if (stored != null) {
      val in = ByteBuffer.wrap(stored)
      lookAt.indices.foreach(kind => lookAt(kind) = in.getLong())
      for (_ <- 0 until in.getInt()) rows += new MatchRow(in.getLong(), Accumulator.bytes(in), form.columns)
      runs.read(in)
      if (form.numbered) {
        matched = in.getLong()
        newest = in.getLong()
      }
    }

    /** End what ends by time alone at `micros`. The result does not depend on how often it is called. */
    def passTime(micros: Long, output: ArrayBuffer[MatchOutput]): Unit = {
      if (limitMicros > 0 && !runs.isEmpty) show(output)(runs.end(run => micros - rows(run.start).time >= limitMicros, _))
      if (ttlMicros > 0 && runs.isEmpty)
        while (forgotten < rows.size && micros - rows(forgotten).time >= ttlMicros) forgotten += 1
      if (ttlMicros > 0 && matched > 0 && micros - newest >= ttlMicros) matched = 0
    }

    def next(micros: Long, row: Array[Byte], output: ArrayBuffer[MatchOutput]): Unit = {
      rows += new MatchRow(micros, row, form.columns)
      newest = micros
      show(output)(runs.next(rows.size - 1, _))
    }

    private def show(output: ArrayBuffer[MatchOutput])(find: ArrayBuffer[Run] => Unit): Unit = {
      val complete = ArrayBuffer.empty[Run]
      find(complete)
      complete.foreach { run =>
        if (form.numbered) matched += 1
        if (form.allRows) run.prefixes.filter(!_.last.excluded).foreach(show(_, run, output)) else show(run, run, output)
      }
    }

    private def show(run: Run, whole: Run, output: ArrayBuffer[MatchOutput]): Unit =
      output += MatchOutput(rows(run.end - 1).time, reader.read(run, whole, matched, rows, forgotten))

    def store(looks: ArrayBuffer[Due]): Unit = {
      val from = math.max(forgotten, runs.from(none = rows.size) - form.history)
      if (limitMicros > 0) runs.oldest.foreach(run => look(ForRuns, rows(run).time + limitMicros, looks))
      if (ttlMicros > 0 && form.history > 0 && from < rows.size) look(ForRows, rows.last.time + ttlMicros, looks)
      if (ttlMicros > 0 && matched > 0) look(ForRows, newest + ttlMicros, looks)
      // While a look is under way, the key remembers it, so that it is the only one.
      if (from < rows.size || matched > 0 || lookAt.exists(_ > watermark)) keys.updateValue(key, encode(from))
      else if (stored != null) keys.removeKey(key)
    }

    private def look(kind: Int, micros: Long, looks: ArrayBuffer[Due]): Unit = if (lookAt(kind) <= watermark) {
      // Of the millisecond that the watermark has reached rows may still come.
      lookAt(kind) = -Math.floorDiv(-micros, 1000L) * 1000
      looks += Due(lookAt(kind), Look, key, null)
    }

    private def encode(from: Int): Array[Byte] = {
      val kept = rows.view.drop(from)
      val out = ByteBuffer.allocate(8 * lookAt.length + 4 + kept.map(12 + _.bytes.length).sum + runs.bytes + (if (form.numbered) 16 else 0))
      lookAt.foreach(out.putLong)
      out.putInt(kept.size)
      kept.foreach(row => Accumulator.put(out.putLong(row.time), row.bytes))
      runs.write(out, from)
      if (form.numbered) out.putLong(matched).putLong(newest)
      out.array()
    }
  }
}

private[spark] object MatchProcessor {
  import WaitingRowsProcessor.Look

  private val StateVersion: Byte = 1

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
    private val getters =
      values.map(value => if (value.column == RunValue.Classifier) null else InternalRow.getAccessor(value.kind))
    private val names = form.variables.map(UTF8String.fromString).toArray
    private val conditions = form.conditions.map(bound => if (bound == null) null else Predicate.create(bound)).toArray
    private val reads = form.conditions.map(bound => if (bound == null) Array.empty[Int] else placesIn(bound).toArray).toArray
    private val (ofWhole, ofRow) = values.indices.toArray.partition(values(_).whole)
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

    /** All values of `run`, the beginning of the match `whole` with this number, as [[PackRow]] bytes. */
    def read(run: Run, whole: Run, number: Long, rows: ArrayBuffer[MatchRow], from: Int): Array[Byte] = {
      fill(ofRow, run, rows, from)
      fill(ofWhole, whole, rows, from)
      values.indices.foreach(at => if (values(at).place == RowPlace.Number) navigations(at) = number)
      packing(navigations).copy().getBytes
    }

    private def fill(places: Array[Int], run: Run, rows: ArrayBuffer[MatchRow], from: Int): Unit = places.foreach { at =>
      def value(row: Int): Any =
        if (row < from) null
        else if (getters(at) != null) getters(at)(rows(row).row, values(at).column)
        else {
          val variable = run.variableOf(row)
          if (variable < 0) null else names(variable)
        }
      navigations(at) = values(at).place match {
        case RowPlace.First(variables, offset) => value(run.fromStart(variables, offset))
        case RowPlace.Last(variables, offset)  => value(run.fromEnd(variables, offset))
        case RowPlace.Before(variables, offset) =>
          val row = run.fromEnd(variables, 0)
          if (row < 0) null else value(row - offset)
        case RowPlace.Each(variables) => new GenericArrayData(run.rows(variables).map(value))
        case RowPlace.Number          => null
      }
    }
  }

  /** The values that a condition reads, by place. */
  def placesIn(condition: Expression): Seq[Int] = condition.collect { case value: BoundReference => value.ordinal }.distinct
}
