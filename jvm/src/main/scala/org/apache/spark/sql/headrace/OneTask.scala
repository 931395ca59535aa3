package org.apache.spark.sql.headrace

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable.ArrayBuffer

import com.google.common.collect.MapMaker
import org.apache.spark.{NarrowDependency, Partition, ShuffleDependency, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning, SinglePartition}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.state.StateStoreThreadLocalTracker

/** The rows of `child`, all made by one task in the process that planned it, partition after partition.
  *
  * The task works on the plan's own objects and not on copies of them: its metrics and accumulators are the plan's, and nothing becomes bytes.
  * So the child's shuffles must be [[ExchangeInOneTaskExec]], and the executors this process.
  */
final case class OneTaskExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = SinglePartition

  override protected def doExecute(): RDD[InternalRow] = new OneTaskRDD(child.execute())

  override protected def withNewChildInternal(newChild: SparkPlan): OneTaskExec = copy(child = newChild)
}

/** A shuffle below [[OneTaskExec]]: rows are kept in memory, by the partitions that they go into. */
final case class ExchangeInOneTaskExec(override val outputPartitioning: Partitioning, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputOrdering: Seq[SortOrder] = Nil

  override protected def doExecute(): RDD[InternalRow] =
    new ExchangedRDD(child.execute(), outputPartitioning.numPartitions, partitioner)

  private def partitioner: InternalRow => Int = outputPartitioning match {
    case hash: HashPartitioning =>
      val number = UnsafeProjection.create(hash.partitionIdExpression :: Nil, child.output)
      row => number(row).getInt(0)
    case _ => _ => 0
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ExchangeInOneTaskExec = copy(child = newChild)
}

object ExchangeInOneTaskExec {
  def supports(partitioning: Partitioning): Boolean = partitioning match {
    case _: HashPartitioning | SinglePartition => true
    case _                                     => false
  }
}

private final class NumberedPartition(override val index: Int) extends Partition

/** A single partition of all partitions of `rows`. To Spark it depends on nothing, and a task's bytes contain a
  * reference to it.
  */
private final class OneTaskRDD(@transient private val rows: RDD[InternalRow]) extends RDD[InternalRow](rows.sparkContext, Nil) {
  OneTaskRDD.checkNarrow(rows)

  override protected def getPartitions: Array[Partition] = Array(new NumberedPartition(0))

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] =
    rows.partitions.iterator.flatMap(PartitionRows.of(rows, _, task))

  private def writeReplace(): AnyRef = OneTaskRDD.referenceTo(this)
}

private object OneTaskRDD {
  private val lastNumber = new AtomicLong
  // Whoever runs the job holds the RDD.
  private val referred = new MapMaker().weakValues().makeMap[Long, OneTaskRDD]()

  private def referenceTo(rdd: OneTaskRDD): Reference = {
    val number = lastNumber.incrementAndGet()
    referred.put(number, rdd)
    new Reference(number)
  }

  private def checkNarrow(rows: RDD[_]): Unit = rows.dependencies.foreach {
    case shuffle: ShuffleDependency[_, _, _] => throw new IllegalStateException(s"expected no shuffle in a plan of one task, found ${shuffle.rdd}")
    case narrow                              => checkNarrow(narrow.rdd)
  }

  private final class Reference(number: Long) extends Serializable {
    private def readResolve(): AnyRef =
      Option(referred.get(number)).getOrElse(throw new IllegalStateException("expected a task in the process that planned it"))
  }
}

/** `rows` by the partitions that they go into; read when the first one of these is asked for. */
private final class ExchangedRDD(rows: RDD[InternalRow], count: Int, partitioner: InternalRow => Int)
    extends RDD[InternalRow](rows.sparkContext, new OnAllPartitions(rows) :: Nil) {
  private lazy val exchanged = {
    val parts = IndexedSeq.fill(count)(new ArrayBuffer[InternalRow])
    for (partition <- rows.partitions; row <- PartitionRows.of(rows, partition, TaskContext.get()))
      parts(partitioner(row)) += row.asInstanceOf[UnsafeRow].copy()
    parts
  }

  override protected def getPartitions: Array[Partition] = Array.tabulate(count)(new NumberedPartition(_))

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val rows = exchanged(split.index).iterator
    StateStoreThreadLocalTracker.clearStore()
    rows
  }
}

private final class OnAllPartitions(rows: RDD[InternalRow]) extends NarrowDependency[InternalRow](rows) {
  override def getParents(partition: Int): Seq[Int] = rows.partitions.indices
}

private object PartitionRows {

  /** Compute a partition in a thread of its own. By its thread Spark passes an operator's state from the node that
    * reads it to the one that writes it, and forgets it when the task ends; otherwise another operator, or partition,
    * of the same task would get it.
    */
  def of(rows: RDD[InternalRow], partition: Partition, task: TaskContext): Iterator[InternalRow] = {
    StateStoreThreadLocalTracker.clearStore()
    rows.iterator(partition, task)
  }
}
