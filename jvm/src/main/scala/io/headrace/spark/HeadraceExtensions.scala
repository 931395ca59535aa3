package io.headrace.spark

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LocalRelation, LogicalPlan, TransformWithState}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.headrace.{DelayedWatermark, DelayedWatermarkExec, FunctionCallStrategy, SparkInternals, TakeCallsOut}

/** Extensions for `spark.sql.extensions`: they plan the watermark nodes of [[PartitionWatermark]] and the joins whose
  * watermark is behind, and [[WindowExtremes]], group the rows of a HOP by slices, close windows in the batch that is past them, call functions
  * of users in batches, fill in the watermark of a batch, and add the functions that read records. Other nodes do not change.
  */
final class HeadraceExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => PartitionWatermarkStrategy)
    extensions.injectPlannerStrategy(_ => DelayedWatermarkStrategy)
    extensions.injectPlannerStrategy(_ => FunctionCallStrategy)
    extensions.injectPlannerStrategy(_ => ExtremesOfBatchStrategy)
    extensions.injectPostHocResolutionRule(_ => TakeCallsOut)
    extensions.injectColumnar(_ => SlicedWindows)
    extensions.injectColumnar(_ => PromptWindows)
    extensions.injectColumnar(_ => CurrentWatermarks)
    extensions.injectColumnar(_ => SmallBatches)
    extensions.injectPlanNormalizationRule(_ => PlannedOnce)
    RecordFunctions.all.foreach(extensions.injectFunction)
  }
}

private[spark] object PartitionWatermarkStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: EventTimeWatermark if SourceSettings.fromMetadata(node.eventTime.metadata).isDefined =>
      // Read here, in the query's thread: a foreachBatch function may run its jobs elsewhere, under names of its own.
      val query = SparkInternals.plannedQuery
      val counts = node.child
        .flatMap(_.expressions)
        .flatMap(_.collect { case counting: CountingEventTime => counting.counts })
        .headOption
        // A batch without rows of this source is planned without the source.
        .getOrElse(RowCounts.registered())
      new PartitionWatermarkExec(node.nodeId, node.eventTime, node.delay, planLater(node.child), query, counts) :: Nil
    case _ => Nil
  }
}

/** Keeps Spark from planning a batch again to describe it.
  *
  * With each batch Spark hands out a text of its plan, twice, for a page that we do not have; and it makes that text by planning
  * the batch from its beginning. What describes a batch that already runs is planned as no rows.
  */
private[spark] object PlannedOnce extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SparkInternals.isRunning(plan)) LocalRelation(plan.output) else plan
}

private[spark] object DelayedWatermarkStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case DelayedWatermark(node: TransformWithState, delayMs) =>
      DelayedWatermarkExec(node, planLater(node.child), planLater(node.initialState), delayMs) :: Nil
    case _ => Nil
  }
}
