package org.apache.spark.sql.headrace

import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.{PropagateWatermarkSimulator, WatermarkTracker}
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** Watermarks of a query's operators that start before all event times.
  *
  * Spark's watermark starts at 0 (1970) and never falls below it. With this class, Spark counts from the year 0 instead. Its tracker and its logs
  * still count from 1970, but the tracker starts at the year 0. Spark logs batch 0 before that, so the 0 logged with batch 0 means "none".
  * A later batch that an earlier release logged with 0 continues from 0.
  *
  * @param tracker returns the query's tracker, which Spark creates after this object
  */
private[headrace] final class EarlyWatermark(tracker: () => WatermarkTracker) extends PropagateWatermarkSimulator {
  import EarlyWatermark._

  override def propagate(batch: Long, plan: SparkPlan, watermarkMs: Long): Unit = {
    // Only batch 0 asks for the one before it.
    if (batch < 0 && tracker().currentWatermark == 0) tracker().setWatermark(NoneMs)
    super.propagate(batch, plan, ofBatch(batch, watermarkMs) - NoneMs)
  }

  override def getInputWatermarkForLateEvents(batch: Long, operator: Long): Long =
    super.getInputWatermarkForLateEvents(batch, operator) + NoneMs

  override def getInputWatermarkForEviction(batch: Long, operator: Long): Long =
    super.getInputWatermarkForEviction(batch, operator) + NoneMs
}

object EarlyWatermark {

  /** The start of the year 0 in epoch ms, before every TIMESTAMP: no watermark is known yet. */
  val NoneMs: Long = -62167219200000L

  /** The watermark of a batch that Spark has logged with `loggedMs`. */
  def ofBatch(batch: Long, loggedMs: Long): Long = if (batch <= 0) NoneMs else loggedMs
}

/** Installs an [[EarlyWatermark]] in each query that starts. Spark calls it in the query's own thread before anything is planned. */
final class EarlyWatermarks extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit =
    for {
      session <- classic.SparkSession.getActiveSession.orElse(classic.SparkSession.getDefaultSession)
      execution <- SparkInternals.execution(session, event.id)
    } SparkInternals.beginEarly(execution)

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
}
