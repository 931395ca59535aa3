package org.apache.spark.sql.headrace

import io.headrace.spark.StepRows
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd
import org.apache.spark.sql.streaming.StreamingQueryListener.{QueryIdleEvent, QueryProgressEvent, QueryTerminatedEvent}

/** Hears of each batch that has ended, with its plan: a query itself may be at the next one by then. Hears also of queries that have none. */
final class BatchListener extends SparkListener {
  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case end: SparkListenerSQLExecutionEnd =>
      end.qe match {
        case batch: IncrementalExecution => StepRows.add(batch.runId, batch.currentBatchId, batch.executedPlan)
        case _                           => ()
      }
    case idle: QueryIdleEvent         => Polling.isIdle(idle.id, idle.runId)
    case progress: QueryProgressEvent => Polling.isActive(progress.progress.runId)
    case end: QueryTerminatedEvent =>
      StepRows.forget(end.runId)
      Polling.isActive(end.runId)
    case _ => ()
  }
}
