package io.headrace.spark

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.headrace.spark.WatermarkCheckpoint.Closed
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.headrace.{EarlyWatermark, SparkInternals}

/** A run of a query on this driver: Spark's execution of it, and the watermark that we keep for it.
  *
  * When operators compare event times themselves (joins, deduplication, `transformWithState`), the watermark is 1 ms
  * lower than the greatest time less the delay, so that a row with an equal time is not late: the watermark of Flink.
  * Windows alone need no such step, since a row at a window's end is not in the window.
  */
private[spark] final class QueryRun private (
    val execution: MicroBatchExecution,
    val watermark: QueryWatermark,
    checkpoint: WatermarkCheckpoint,
    streams: Map[UUID, (SourceSettings, Seq[SparkDataStream])]
) {
  private var closed = checkpoint.closed
  private var seen = List.empty[PartitionMaxima]
  private val flushes = streams.values.exists { case (settings, _) => settings.allIdle == AllIdle.Flush }

  /** Called in the query's thread before a batch runs. Returns the time up to which Spark takes its rows for late. */
  def planned(): Long = {
    look()
    if (flushes && SparkInternals.readsLastRows(execution)) watermark.end()
    SparkInternals.lateMs(execution)
  }

  /** Called in the query's thread before a batch runs: `maxima` may see its rows without a word. */
  def isToldBy(maxima: PartitionMaxima): Unit = synchronized { seen ::= maxima }

  /** The watermark that follows from the rows of a batch, `EarlyWatermark.NoneMs` while there is none; called by its tasks when all were read. It is in the
    * checkpoint before a row comes of it, for a batch that runs again: then it is not known any more which partitions were idle.
    */
  def closing(batch: Long): Long = synchronized {
    closed.filter(_.batch == batch).getOrElse {
      seen.foreach(_.tell())
      val closing = Closed(batch, watermark.combined().getOrElse(EarlyWatermark.NoneMs))
      checkpoint.write(watermark.maxima(), watermark.newest(), Some(closing))
      closed = Some(closing)
      closing
    }.watermarkMs
  }

  /** Called when a batch has run and is not committed yet. Returns the watermark that follows from it. */
  def ran(): Option[Long] = synchronized {
    seen.foreach(_.tell())
    seen = Nil
    checkpoint.write(watermark.maxima(), watermark.newest(), closed)
    watermark.combined()
  }

  /** Called by the clock: lets partitions become idle while the query waits for data. */
  def tick(): Boolean = SparkInternals.raiseWatermark(execution, patienceMs = 0) {
    look()
    watermark.combined()
  }

  /** Ends the query's event time while it waits for data; false when it does not wait. */
  def flush(): Boolean = SparkInternals.raiseWatermark(execution, QueryRun.FlushPatienceMs) {
    watermark.end()
    watermark.combined()
  }

  /** Lets go what the run had in this process. */
  def forget(): Unit = streams.values.flatMap(_._1.many).foreach(ManyEntities.forget)

  private def look(): Unit = {
    val polledMs = SparkInternals.polledMs(execution)
    streams.foreach { case (node, (settings, read)) =>
      val progress = SourceProgress.merge(read.map { stream =>
        val (start, end, latest) = SparkInternals.offsets(execution, stream)
        SourceProgress.of(start, end, latest, settings.layout)
      })
      // A batch that is replayed after a restart carries the time of its first attempt, long ago: that of its rows, where they have its.
      val replayed = progress == SourceProgress.Unknown && settings.clockStepMs == 0
      watermark.look(node, progress, if (replayed) System.currentTimeMillis() else polledMs)
    }
  }
}

private[spark] object QueryRun {
  /** Time that a flush waits for a poll of the sources to end. */
  private val FlushPatienceMs = 5000L

  private val runs = new ConcurrentHashMap[UUID, QueryRun]()

  /** The run that is now executing the query, registered on first sight; None for a query that is not in micro-batches. */
  def of(session: SparkSession, queryId: UUID): Option[QueryRun] =
    SparkInternals.execution(session, queryId).map { execution =>
      IdleClock.start()
      runs.computeIfAbsent(execution.runId, _ => start(execution))
    }

  /** The same, when we keep the watermark of all sources of the query that have one. */
  def ofAllSources(session: SparkSession, queryId: UUID): Option[QueryRun] =
    SparkInternals
      .execution(session, queryId)
      .map(SparkInternals.watermarkNodes)
      .filter(nodes => nodes.nonEmpty && nodes.forall { case (node, _) => SourceSettings.fromMetadata(node.eventTime.metadata).isDefined })
      .flatMap(_ => of(session, queryId))

  def active: Iterable[QueryRun] = runs.values().asScala

  def byRunId(runId: UUID): Option[QueryRun] = Option(runs.get(runId))

  /** Forgets the runs that have ended. */
  def sweep(): Unit = runs.values().removeIf { run =>
    val ended = !run.execution.isActive
    if (ended) run.forget()
    ended
  }

  private def start(execution: MicroBatchExecution): QueryRun = {
    val nodes = for {
      (node, streams) <- SparkInternals.watermarkNodes(execution)
      settings <- SourceSettings.fromMetadata(node.eventTime.metadata)
    } yield (node.nodeId, settings, streams)
    // The same source can be read twice in one plan, as in a self-join.
    val sources = nodes.groupBy(_._1).map { case (id, same) => id -> ((same.head._2, same.flatMap(_._3).distinct)) }
    if (sources.values.exists(_._1.allIdle == AllIdle.Flush) && !SparkInternals.readsToAnEnd(execution))
      throw new IllegalStateException(
        "expected the trigger availableNow for a query whose sources are flushed at their end, found another trigger"
      )
    val boundaryMs = if (SparkInternals.comparesEventTimes(execution)) 1L else 0L
    val settings = sources.map { case (id, (setting, _)) => id -> setting }
    val watermark = new QueryWatermark(settings, boundaryMs, System.currentTimeMillis())
    val checkpoint = new WatermarkCheckpoint(execution)
    // 0 stands for none in a file of an earlier release.
    val closedMs = checkpoint.closed.map(_.watermarkMs).filter(ms => ms != 0 && ms != EarlyWatermark.NoneMs)
    watermark.restore(checkpoint.maxima, checkpoint.newest, closedMs)
    new QueryRun(execution, watermark, checkpoint, sources)
  }
}

/** The one daemon thread of this JVM that lets partitions become idle while their queries wait for data. */
private[spark] object IdleClock extends Logging {
  private val PeriodMs = 100L

  // Started by the first use of the object; later calls of start() do nothing.
  private lazy val clock: ScheduledExecutorService = {
    val executor = Executors.newSingleThreadScheduledExecutor { task =>
      val thread = new Thread(task, "headrace-watermark-clock")
      thread.setDaemon(true)
      thread
    }
    executor.scheduleWithFixedDelay(() => tick(), PeriodMs, PeriodMs, TimeUnit.MILLISECONDS)
    executor
  }

  def start(): Unit = { val _ = clock }

  private def tick(): Unit = {
    QueryRun.sweep()
    QueryRun.active.foreach { run =>
      // One query in trouble must not stop the clock of the others.
      try run.tick()
      catch { case NonFatal(error) => logWarning(s"The watermark of run ${run.execution.runId} was not looked at", error) }
    }
  }
}
