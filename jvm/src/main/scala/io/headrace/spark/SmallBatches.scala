package io.headrace.spark

import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.v2.{MicroBatchScanExec, WriteToDataSourceV2Exec}
import org.apache.spark.sql.execution.exchange.{Exchange, ShuffleExchangeExec}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStreamInputPartition
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.headrace.{ExchangeInOneTaskExec, OneTaskExec}
import org.apache.spark.sql.kafka010.KafkaBatchSize

/** Runs a micro-batch of few records as one task of this process, without shuffles.
  *
  * Most of such a batch are stages, and tasks and closures as bytes and back. Which batches are small is known before they are read: of
  * those that read nothing but Kafka's topics, or nothing at all.
  */
private[spark] object SmallBatches extends ColumnarRule {
  // Why one task: a batch of a few records costs Spark some 100 ms, of which the rows are one. Each stage is planned, serialized and
  // scheduled, and each shuffle is written to files and read again. At low rates that is the latency of every row. ADR 42 has the figures.
  //
  // Why a limit: one task uses one core. Beyond some thousand records the work outweighs what the stages cost.

  /** Setting of a session: for up to so many records one task is faster than several. 0: never. */
  val MostRecords = "spark.headrace.smallBatchRecords"

  /** Limit of partitions of a source, and of state: the task processes them one by one, and waits for the broker, or
    * a disk, each time.
    */
  val MostPartitions = 8

  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    plan match {
      case write: WriteToDataSourceV2Exec if isSmall(write.query) => write.withNewChildren(inOneTask(write.query) :: Nil)
      // The plan of a batch for foreachBatch, which is without its sink; and not of what that does with it.
      case rows if isSmall(rows) => inOneTask(rows)
      case _                     => plan
    }

  private def inOneTask(rows: SparkPlan): SparkPlan = OneTaskExec(rows.transformUp { case shuffle: ShuffleExchangeExec =>
    ExchangeInOneTaskExec(shuffle.outputPartitioning, shuffle.child)
  })

  private def isSmall(rows: SparkPlan): Boolean = isOfMicroBatch(rows) && {
    val most = rows.session.sessionState.conf.getConfString(MostRecords, "0").toLong
    val read = rows.collectLeaves().map(records)
    // Only where tasks run in this process (isLocal): on a cluster the one task would read for all executors.
    most > 0 && rows.session.sparkContext.isLocal && fits(rows) && read.forall(_.isDefined) && read.flatten.sum <= most
  }

  private def isOfMicroBatch(rows: SparkPlan): Boolean = rows.exists {
    case _: MicroBatchScanExec | _: StateStoreWriter => true
    case _                                           => false
  }

  private def fits(rows: SparkPlan): Boolean = !rows.exists {
    case shuffle: ShuffleExchangeExec =>
      !ExchangeInOneTaskExec.supports(shuffle.outputPartitioning) || shuffle.outputPartitioning.numPartitions > MostPartitions
    // What is broadcast is made by a job of its own; the others have shuffles that are not in the plan.
    case _: Exchange | _: LimitExec | _: TakeOrderedAndProjectExec => true
    case _                                                         => false
  }

  /** The number of records; None if it is unknown, or for too many partitions. */
  private def records(leaf: SparkPlan): Option[Long] = leaf match {
    case scan: MicroBatchScanExec =>
      val sizes = scan.inputPartitions.map {
        case memory: MemoryStreamInputPartition => Some(memory.records.length.toLong)
        case other                              => KafkaBatchSize.of(other)
      }
      Option.when(sizes.length <= MostPartitions && sizes.forall(_.isDefined))(sizes.flatten.sum)
    // The second one is what `transformWithState` has for a state to begin with, of which nothing is asked.
    case _: LocalTableScanExec | PlanLater(_: LocalRelation) => Some(0L)
    case _                                                   => None
  }
}
