package io.headrace.spark

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan}
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStats, EventTimeStatsAccum, EventTimeWatermarkExec}
import org.apache.spark.sql.headrace.{EarlyWatermark, SparkInternals}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.CalendarInterval
import org.apache.spark.util.AccumulatorV2

/** Spark's watermark node, with an accumulator that keeps one maximum per partition instead of one for all.
  *
  * Spark's tracker finds its nodes by the type of the parent class and asks their accumulator for the greatest event
  * time; ours answers with the query's combined watermark plus the delay that the tracker is about to subtract.
  *
  * @param eventTime  the column made by [[EventTimeCode]], with the [[SourceSettings]] in its metadata
  * @param queryId    the streaming query for which this was planned; None in an EXPLAIN, which never runs
  * @param counts     where late and timeless rows are counted
  */
private[spark] class PartitionWatermarkExec(
    nodeId: UUID,
    eventTime: Attribute,
    delay: CalendarInterval,
    child: SparkPlan,
    queryId: Option[UUID],
    counts: RowCounts
) extends EventTimeWatermarkExec(nodeId, eventTime, delay, child)
    with CodegenSupport {

  private val settings = SourceSettings.fromMetadata(eventTime.metadata)
  private val maxima = new PartitionMaxima

  // Of the batch; what Spark takes for late is what was so before it.
  private var lateMs = EarlyWatermark.NoneMs
  sparkContext.register(maxima)
  SparkInternals.replaceStatistics(this, maxima)

  private def ordinal: Int = child.output.indexWhere(_.exprId == eventTime.exprId)

  /** The columns by which late rows are known and, where they are kept, sent: the time, the record, its metadata. */
  private def lateColumns: Seq[Int] = settings.toSeq.filter(_.window.isDefined).flatMap { known =>
    val kept = if (known.late.isEmpty) Nil else known.internal.sent
    (known.eventTime +: kept).map { name =>
      val at = child.output.indexWhere(_.name == name)
      if (at < 0) throw new IllegalStateException(s"expected a column $name at the watermark, found ${child.output.map(_.name)}")
      at
    }
  }

  override protected def doPrepare(): Unit =
    for (id <- queryId; run <- QueryRun.of(session, id)) {
      lateMs = run.planned()
      maxima.follow(run, nodeId, delayMs)
    }

  /** Fields of the metadata, if late rows are sent with it. */
  private def fields: StructType = lateColumns.lift(2).fold(new StructType)(child.output(_).dataType.asInstanceOf[StructType])

  private def watcher: EventTimeWatcher = new EventTimeWatcher(maxima, counts, settings, lateMs, fields)

  override protected def doExecute(): RDD[InternalRow] = {
    val (watching, at, late, fields) = (watcher, ordinal, lateColumns, this.fields)
    child.execute().mapPartitions { rows =>
      rows.map { row =>
        if (row.isNullAt(at)) watching.timeless()
        else {
          watching.see(row.getLong(at))
          if (late.nonEmpty && watching.isLate(row.getLong(at), row.getLong(late.head))) late match {
            case Seq(time, record, metadata) =>
              watching.send(
                row.getLong(time),
                row.getStruct(record, SideTopic.Record.size),
                row.getStruct(metadata, fields.size))
            case _ =>
          }
        }
        row
      }
    }
  }

  override def inputRDDs(): Seq[RDD[InternalRow]] = child match {
    case generated: CodegenSupport => generated.inputRDDs()
    case other                     => Seq(other.execute())
  }

  override def usedInputs: AttributeSet = AttributeSet(eventTime +: lateColumns.map(child.output))

  override protected def doProduce(ctx: CodegenContext): String = child.asInstanceOf[CodegenSupport].produce(ctx, this)

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val watching = ctx.addReferenceObj("watermark", watcher)
    val code = input(ordinal)
    val late = lateColumns.map(input(_).value) match {
      case Seq(time)           => s"$watching.isLate(${code.value}, $time);"
      case Seq(time, sent @ _*) => s"if ($watching.isLate(${code.value}, $time)) $watching.send($time, ${sent.mkString(", ")});"
      case _                   => ""
    }
    s"""
       |if (${code.isNull}) {
       |  $watching.timeless();
       |} else {
       |  $watching.see(${code.value});
       |  $late
       |}
       |${consume(ctx, input)}
     """.stripMargin
  }

  override protected def otherCopyArgs: Seq[AnyRef] = queryId :: counts :: Nil

  override protected def withNewChildInternal(newChild: SparkPlan): EventTimeWatermarkExec =
    new PartitionWatermarkExec(nodeId, eventTime, delay, newChild, queryId, counts)

  override def copy(
      nodeId: UUID,
      eventTime: Attribute,
      delay: CalendarInterval,
      child: SparkPlan
  ): EventTimeWatermarkExec = new PartitionWatermarkExec(nodeId, eventTime, delay, child, queryId, counts)
}

/** Collector of event times in a task. */
private[spark] final class EventTimeWatcher(
    maxima: PartitionMaxima,
    counts: RowCounts,
    settings: Option[SourceSettings],
    lateMs: Long,
    fields: StructType
) extends Serializable {
  // Not Options for every row.
  private val window: EventWindow = settings.flatMap(_.window).orNull
  private val late: SideTopic = settings.flatMap(_.late).map(SideTopic.of).orNull
  private val lateMicros = lateMs * 1000

  /** Record an event time, as [[EventTimeCode]] packs it. */
  def see(code: Long): Unit = if (!EventTimeCode.isSilent(code)) maxima.see(code)

  /** True if a row, by its code and its time in microseconds, is too late for its last window; then it is counted. */
  def isLate(code: Long, micros: Long): Boolean = {
    val tooLate = !EventTimeCode.isSilent(code) && window.lastEnd(micros) <= lateMicros
    if (tooLate) counts.add("late_rows")
    tooLate
  }

  /** Sends a late row on as it came. */
  def send(micros: Long, record: InternalRow, metadata: InternalRow): Unit =
    late.send(
      record,
      RecordMetadata.texts(metadata, fields),
      "event.time" -> micros.toString,
      "window.end" -> window.lastEnd(micros).toString,
      "watermark" -> lateMicros.toString
    )

  /** A row without one. */
  def timeless(): Unit = counts.add("timeless_rows")
}

/** Keeps the greatest event time of each partition: in a task over its rows, on the driver over all tasks of a batch.
  *
  * A maximum is the same however often a task is retried.
  */
private[spark] final class PartitionMaxima
    extends EventTimeStatsAccum(new EventTimeStats(Long.MinValue, Long.MaxValue, 0d, 0L)) {
  private val maxima = mutable.LongMap.empty[Long]

  // A task reads one partition, or few in long runs: the last one is kept out of the map.
  private var lastCode = PartitionMaxima.NoPartition
  private var lastMs = Long.MinValue

  // Only on the driver; null in a task.
  @transient private var followed: PartitionMaxima.Followed = _

  /** Driver: feeds `run` from now on. */
  def follow(run: QueryRun, nodeId: UUID, delayMs: Long): Unit = {
    followed = PartitionMaxima.Followed(run, nodeId, delayMs)
    run.isToldBy(this)
  }

  /** Driver: tells the run what a task saw by this very object, which is then never merged: see `OneTaskExec`. */
  def tell(): Unit = {
    settle()
    Option(followed).foreach(_.tell(maxima))
  }

  /** Task: one event time, as [[EventTimeCode]] packs it. */
  def see(code: Long): Unit = {
    val partition = EventTimeCode.partition(code)
    val ms = EventTimeCode.ms(code)
    if (partition != lastCode) {
      settle()
      lastCode = partition
      lastMs = ms
    } else if (ms > lastMs) lastMs = ms
  }

  private def settle(): Unit =
    if (lastCode != PartitionMaxima.NoPartition) {
      raise(lastCode.toLong, lastMs)
      lastCode = PartitionMaxima.NoPartition
    }

  private def raise(code: Long, ms: Long): Unit = maxima.update(code, math.max(maxima.getOrElse(code, Long.MinValue), ms))

  // See RowCounts: it may be asked before its fields are there.
  override def isZero: Boolean = maxima == null || lastCode == PartitionMaxima.NoPartition && maxima.isEmpty

  override def reset(): Unit = {
    maxima.clear()
    lastCode = PartitionMaxima.NoPartition
  }

  override def copy(): AccumulatorV2[Long, EventTimeStats] = {
    val copied = new PartitionMaxima
    copied.merge(this)
    copied
  }

  override def add(code: Long): Unit = see(code)

  override def merge(other: AccumulatorV2[Long, EventTimeStats]): Unit = other match {
    case seen: PartitionMaxima =>
      seen.settle()
      seen.maxima.foreachEntry(raise)
      Option(followed).foreach(_.tell(seen.maxima))
    case _ => throw new UnsupportedOperationException(s"cannot merge ${other.getClass.getName}")
  }

  /** Statistics of the batch for Spark's tracker, which would take 1970 for the watermark with a count of 0. The tracker reads
    * them when the batch has run and before it is committed.
    */
  override def value: EventTimeStats =
    Option(followed).fold(new EventTimeStats(Long.MinValue, Long.MaxValue, 0d, 0L)) { of =>
      val ms = of.run.ran().getOrElse(EarlyWatermark.NoneMs) + of.delayMs
      new EventTimeStats(ms, ms, ms.toDouble, 1L)
    }
}

private[spark] object PartitionMaxima {
  private val NoPartition = -1

  private final case class Followed(run: QueryRun, nodeId: UUID, delayMs: Long) {
    def tell(maxima: mutable.LongMap[Long]): Unit = run.watermark.saw(nodeId, maxima.map { case (code, ms) => code.toInt -> ms })
  }
}
