package org.apache.spark.sql.headrace

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TransformWithState, UnaryNode}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}

/** Marks a [[TransformWithState]] that is to be planned as a [[DelayedWatermarkExec]]. */
final case class DelayedWatermark(child: LogicalPlan, delayMs: Long) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): DelayedWatermark = copy(child = newChild)
}

/** `transformWithState` whose rows may be `delayMs` older than the watermark when they come out: what reads them has a
  * watermark that is so much behind. Spark's own node gives on the watermark that it has, and what comes after it would drop
  * such rows as late.
  */
final class DelayedWatermarkExec(
    keyDeserializer: Expression,
    valueDeserializer: Expression,
    groupingAttributes: Seq[Attribute],
    dataAttributes: Seq[Attribute],
    statefulProcessor: StatefulProcessor[Any, Any, Any],
    timeMode: TimeMode,
    outputMode: OutputMode,
    keyEncoder: ExpressionEncoder[Any],
    outputObjAttr: Attribute,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan,
    isStreaming: Boolean,
    hasInitialState: Boolean,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateDataAttrs: Seq[Attribute],
    initialStateDeserializer: Expression,
    initialState: SparkPlan,
    delayMs: Long
) extends TransformWithStateExec(
      keyDeserializer,
      valueDeserializer,
      groupingAttributes,
      dataAttributes,
      statefulProcessor,
      timeMode,
      outputMode,
      keyEncoder,
      outputObjAttr,
      stateInfo,
      batchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      child,
      isStreaming,
      hasInitialState,
      initialStateGroupingAttrs,
      initialStateDataAttrs,
      initialStateDeserializer,
      initialState
    ) {

  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    Some(math.max(0L, inputWatermarkMs - delayMs))

  override protected def otherCopyArgs: Seq[AnyRef] = Long.box(delayMs) :: Nil

  // Spark fills in the state and the watermarks of a batch with it.
  override def copy(
      keyDeserializer: Expression,
      valueDeserializer: Expression,
      groupingAttributes: Seq[Attribute],
      dataAttributes: Seq[Attribute],
      statefulProcessor: StatefulProcessor[Any, Any, Any],
      timeMode: TimeMode,
      outputMode: OutputMode,
      keyEncoder: ExpressionEncoder[Any],
      outputObjAttr: Attribute,
      stateInfo: Option[StatefulOperatorStateInfo],
      batchTimestampMs: Option[Long],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      child: SparkPlan,
      isStreaming: Boolean,
      hasInitialState: Boolean,
      initialStateGroupingAttrs: Seq[Attribute],
      initialStateDataAttrs: Seq[Attribute],
      initialStateDeserializer: Expression,
      initialState: SparkPlan
  ): DelayedWatermarkExec = new DelayedWatermarkExec(
    keyDeserializer,
    valueDeserializer,
    groupingAttributes,
    dataAttributes,
    statefulProcessor,
    timeMode,
    outputMode,
    keyEncoder,
    outputObjAttr,
    stateInfo,
    batchTimestampMs,
    eventTimeWatermarkForLateEvents,
    eventTimeWatermarkForEviction,
    child,
    isStreaming,
    hasInitialState,
    initialStateGroupingAttrs,
    initialStateDataAttrs,
    initialStateDeserializer,
    initialState,
    delayMs
  )
}

object DelayedWatermarkExec {

  /** `node` as Spark itself plans it, but for the delay. */
  def apply(node: TransformWithState, child: SparkPlan, initialState: SparkPlan, delayMs: Long): DelayedWatermarkExec =
    new DelayedWatermarkExec(
      node.keyDeserializer,
      node.valueDeserializer,
      node.groupingAttributes,
      node.dataAttributes,
      node.statefulProcessor,
      node.timeMode,
      node.outputMode,
      node.keyEncoder,
      node.outputObjAttr,
      stateInfo = None,
      batchTimestampMs = None,
      eventTimeWatermarkForLateEvents = None,
      eventTimeWatermarkForEviction = None,
      child,
      isStreaming = true,
      node.hasInitialState,
      node.initialStateGroupingAttrs,
      node.initialStateDataAttrs,
      node.initialStateDeserializer,
      initialState,
      delayMs
    )
}
