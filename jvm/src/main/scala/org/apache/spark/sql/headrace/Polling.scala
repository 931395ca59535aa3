package org.apache.spark.sql.headrace

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution

/** Lets a query that waits for rows ask its sources less often.
  *
  * Spark asks the sources again 10 ms after they had nothing (`spark.sql.streaming.pollingDelay`). A query that waits would cost a twentieth of a processor core,
  * and its broker some sixty requests a second. After ten seconds without a batch Spark reports that the query is idle
  * (`spark.sql.streaming.noDataProgressEventInterval`): from then on the query asks ten times a second, until its next batch.
  */
private[headrace] object Polling {
  private val IdleDelayMs = 100L

  private final case class Slowed(execution: MicroBatchExecution, usualMs: Long)

  private val runs = new ConcurrentHashMap[UUID, Slowed]()

  /** Called when a run has had no batch for a while. */
  def isIdle(queryId: UUID, runId: UUID): Unit =
    for {
      session <- SparkSession.getDefaultSession
      execution <- SparkInternals.execution(session, queryId)
      usualMs = SparkInternals.pollingDelayMs(execution)
      if execution.runId == runId && usualMs < IdleDelayMs
    } {
      runs.put(runId, Slowed(execution, usualMs))
      SparkInternals.setPollingDelayMs(execution, IdleDelayMs)
    }

  /** Called when a run has had a batch, or has ended. */
  def isActive(runId: UUID): Unit =
    Option(runs.remove(runId)).foreach { case Slowed(execution, usualMs) => SparkInternals.setPollingDelayMs(execution, usualMs) }
}
