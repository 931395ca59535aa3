package io.headrace.spark

import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.kafka010.KafkaFromFirstRecords
import org.apache.spark.sql.types.{DecimalType, LongType}

/** Decides if the rows of a batch are the same, but for their order, each time that the batch runs: the condition to write it in
  * several transactions.
  *
  * The offsets, the time and the watermark of a batch are in its checkpoint. What else may differ is the order in which tasks receive
  * rows. So this accepts only what is known not to depend on the order: a plan that it does not know is written in one transaction.
  */
object RepeatableRows {

  def holds(records: DataFrame): Boolean =
    !records.asInstanceOf[classic.DataFrame].queryExecution.analyzed.exists(node => !isRepeatable(node))

  private def isRepeatable(node: LogicalPlan): Boolean = (node match {
    case source: StreamingRelationV2                                    => source.source.exists(_.isInstanceOf[KafkaFromFirstRecords])
    case _: Project | _: Filter | _: Generate | _: Expand | _: Union    => true
    case _: Aggregate | _: EventTimeWatermark | _: SubqueryAlias | _: View => true
    case _                                                              => false
  }) && node.expressions.forall(isRepeatable)

  private def isRepeatable(expression: Expression): Boolean = {
    // These call themselves nondeterministic so that the optimizer leaves them in place.
    val meant = expression.transform {
      case FilterBarrier(child, _)     => child
      case CountingEventTime(child, _) => child
      case watermark: CurrentWatermark => Literal.create(null, watermark.dataType)
      case measured: MeasuredRecord    => measured.left
      case admitted: AdmitRecord       => Literal.create(null, admitted.dataType)
    }
    meant.deterministic && !meant.exists {
      case _: Count | _: Min | _: Max => false
      case sum: Sum                   => !isExact(sum) // a sum of DOUBLEs depends on the order
      case _: AggregateFunction       => true
      case _: UserFunctionCall        => true
      case _                          => false
    }
  }

  private def isExact(sum: Sum): Boolean = sum.dataType match {
    case LongType | _: DecimalType => true
    case _                         => false
  }
}
