package io.headrace.spark

import java.util.UUID

import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.streaming.operators.stateful.{StateStoreRestoreExec, StateStoreSaveExec, StateStoreWriter}
import org.apache.spark.sql.execution.streaming.state.headrace.{BatchWatermark, PromptRestoreExec, PromptSaveExec}
import org.apache.spark.sql.headrace.{EarlyWatermark, SparkInternals}
import org.apache.spark.sql.streaming.OutputMode

/** Gives a window in the batch whose rows close it, where its groups are the only state of a query that we keep the watermark of.
  *
  * Where there is other state, what comes after the windows would take their rows for late.
  */
private[spark] object PromptWindows extends ColumnarRule {

  // Spark evicts by the watermark at the start of a batch, which follows from the rows of the batches before. A window whose end is
  // passed by the rows of this batch therefore waits for another batch, which at low rates comes seconds later or never. The watermark
  // of this batch's own rows is known once all of them were read, and a shuffle makes sure of that: the stages before it end before
  // the stage of the windows begins. ADR 41 proves that a repeated batch closes the same windows.

  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    plan.collect { case state: StateStoreWriter => state } match {
      // Only where the tasks are in this process, since they ask the run (see ClosingWatermark).
      case Seq(windows: StateStoreSaveExec) if windows.session.sparkContext.isLocal && closes(windows) =>
        run(windows).fold(plan) { run =>
          val closing = new ClosingWatermark(run.execution.runId, windows.getStateInfo.storeVersion, isReadBefore(windows))
          plan.transformUp {
            case node: StateStoreRestoreExec => new PromptRestoreExec(node)
            case node: StateStoreSaveExec    => new PromptSaveExec(node, closing)
          }
        }
      case _ => plan
    }

  private def closes(windows: StateStoreSaveExec): Boolean =
    windows.outputMode.contains(OutputMode.Append()) && windows.eventTimeWatermarkForEviction.isDefined &&
      windows.keyExpressions.exists(_.metadata.contains(EventTimeWatermark.delayKey))

  private def run(windows: StateStoreSaveExec): Option[QueryRun] =
    SparkInternals.plannedQuery.flatMap(QueryRun.ofAllSources(windows.session, _))

  /** True if all rows of the batch are read by stages that end before that of `windows` begins. */
  private def isReadBefore(windows: StateStoreSaveExec): Boolean = {
    val read = watermarks(windows)
    val shuffled = windows.collect { case shuffle: ShuffleExchangeLike => shuffle }.flatMap(watermarks)
    read.forall(shuffled.contains)
  }

  private def watermarks(plan: SparkPlan): Seq[UUID] = plan.collect { case node: PartitionWatermarkExec => node.nodeId }
}

/** The watermark that follows from the rows of a batch. Its tasks ask the run, which is in their process.
  *
  * @param batch the batch, by the version of the state that it begins with
  */
private final class ClosingWatermark(runId: UUID, batch: Long, isReadBefore: Boolean) extends BatchWatermark {
  override def ms: Long =
    (if (isReadBefore) QueryRun.byRunId(runId) else None).fold(EarlyWatermark.NoneMs)(_.closing(batch))
}
