package org.apache.spark.sql.execution.streaming.state
package headrace

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.NextIterator

/** A watermark that a task asks for when it has its rows. */
trait BatchWatermark extends Serializable {

  /** Watermark in epoch ms; the same for every task of a batch, however often it runs. */
  def ms: Long
}

/** Range of window ends in epoch microseconds; without windows it is empty, from the end of time to its beginning. */
private[headrace] final case class WindowEnds(first: Long = Long.MaxValue, last: Long = Long.MinValue) {
  def and(end: Long): WindowEnds = WindowEnds(math.min(first, end), math.max(last, end))
  def and(others: WindowEnds): WindowEnds = WindowEnds(math.min(first, others.first), math.max(last, others.last))
}

/** Finds the end of a row's window. */
private final class WindowEnd(columns: Seq[Attribute]) extends Serializable {
  private val (at, isWindow) = {
    val time = WatermarkSupport.findEventTimeColumn(columns, allowMultipleEventTimeColumns = false).get
    (columns.indexWhere(_.exprId == time.exprId), time.dataType.isInstanceOf[StructType])
  }

  /** End of a row's window in epoch microseconds. A row that is grouped by its time alone has a window that ends
    * there; without a time, one that never ends.
    */
  def of(row: InternalRow): Long =
    if (row.isNullAt(at)) Long.MaxValue else if (isWindow) row.getStruct(at, 2).getLong(1) else row.getLong(at)
}

/** Spark's node that reads the groups of windows, which does not look for a window that is newer than any in the state. */
final class PromptRestoreExec(
    keyExpressions: Seq[Attribute],
    stateInfo: Option[StatefulOperatorStateInfo],
    stateFormatVersion: Int,
    child: SparkPlan
) extends StateStoreRestoreExec(keyExpressions, stateInfo, stateFormatVersion, child) {

  def this(node: StateStoreRestoreExec) = this(node.keyExpressions, node.stateInfo, node.stateFormatVersion, node.child)

  override protected def doExecute(): RDD[InternalRow] = {
    val (groups, windowEnd, numOutputRows) = (stateManager, new WindowEnd(child.output), longMetric("numOutputRows"))
    child.execute().mapPartitionsWithReadStateStore(
      getStateInfo,
      keyExpressions.toStructType,
      groups.getStateValueSchema,
      NoPrefixKeyStateEncoderSpec(keyExpressions.toStructType),
      session.sessionState,
      Some(session.streams.stateStoreCoordinator)
    ) { (store: ReadStateStore, rows: Iterator[InternalRow]) =>
      val newest = CountedStateStoreProvider.rows(store).flatMap(_.ends).fold(Long.MaxValue)(_.last)
      rows.flatMap { row =>
        val kept = if (windowEnd.of(row) > newest) null else groups.get(store, groups.getKey(row.asInstanceOf[UnsafeRow]))
        numOutputRows += (if (kept == null) 1 else 2)
        if (kept == null) Iterator.single(row) else Iterator(kept, row)
      }
    }
  }

  // Spark keeps a node that a rule replaces by an equal one.
  override def equals(other: Any): Boolean = other.isInstanceOf[PromptRestoreExec] && super.equals(other)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[PromptRestoreExec]

  override protected def withNewChildInternal(newChild: SparkPlan): StateStoreRestoreExec =
    new PromptRestoreExec(keyExpressions, stateInfo, stateFormatVersion, newChild)

  override def copy(
      keyExpressions: Seq[Attribute],
      stateInfo: Option[StatefulOperatorStateInfo],
      stateFormatVersion: Int,
      child: SparkPlan
  ): StateStoreRestoreExec = new PromptRestoreExec(keyExpressions, stateInfo, stateFormatVersion, child)
}

/** Spark's node that keeps the groups of windows and gives those whose window the watermark has closed, but for the watermark: Spark's
  * is that of the batch before, and so a window closes a batch late. This one knows the watermark that follows from the rows of
  * its own batch, which all were read before it began. What closes at once is never written.
  *
  * The state is as Spark's own: each may go on with what the other wrote.
  *
  * @param eventTimeWatermarkForLateEvents what the batch before has closed: groups of such windows are dropped
  * @param closing                         what this one closes
  */
final class PromptSaveExec(
    keyExpressions: Seq[Attribute],
    stateInfo: Option[StatefulOperatorStateInfo],
    outputMode: Option[OutputMode],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    stateFormatVersion: Int,
    child: SparkPlan,
    closing: BatchWatermark
) extends StateStoreSaveExec(
      keyExpressions,
      stateInfo,
      outputMode,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      stateFormatVersion,
      child
    ) {

  def this(node: StateStoreSaveExec, closing: BatchWatermark) = this(
    node.keyExpressions,
    node.stateInfo,
    node.outputMode,
    node.eventTimeWatermarkForEviction,
    node.eventTimeWatermarkForEviction,
    node.stateFormatVersion,
    node.child,
    closing
  )

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    newInputWatermark > math.max(closing.ms, eventTimeWatermarkForEviction.get)

  override protected def doExecute(): RDD[InternalRow] = {
    // Tasks get what is named here, and not the node, which has the whole plan below it.
    val (groups, groupEnd, keyEnd) = (stateManager, new WindowEnd(child.output), new WindowEnd(keyExpressions))
    val (late, evicted, closing) = (eventTimeWatermarkForLateEvents.get, eventTimeWatermarkForEviction.get, this.closing)
    val measured = new StateMetrics(metrics, instanceMetrics)
    child.execute().mapPartitionsWithStateStore(
      getStateInfo,
      keyExpressions.toStructType,
      groups.getStateValueSchema,
      NoPrefixKeyStateEncoderSpec(keyExpressions.toStructType),
      session.sessionState,
      Some(session.streams.stateStoreCoordinator)
    ) { (store: StateStore, rows: Iterator[InternalRow]) =>
      new ClosedWindows(store, rows, groups, groupEnd, keyEnd, late * 1000, math.max(closing.ms, evicted) * 1000, measured)
    }
  }

  override protected def otherCopyArgs: Seq[AnyRef] = closing :: Nil

  // Spark keeps a node that a rule replaces by an equal one.
  override def equals(other: Any): Boolean = other.isInstanceOf[PromptSaveExec] && super.equals(other)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[PromptSaveExec]

  override protected def withNewChildInternal(newChild: SparkPlan): StateStoreSaveExec = copy(child = newChild)

  override def copy(
      keyExpressions: Seq[Attribute],
      stateInfo: Option[StatefulOperatorStateInfo],
      outputMode: Option[OutputMode],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      stateFormatVersion: Int,
      child: SparkPlan
  ): StateStoreSaveExec = new PromptSaveExec(
    keyExpressions,
    stateInfo,
    outputMode,
    eventTimeWatermarkForLateEvents,
    eventTimeWatermarkForEviction,
    stateFormatVersion,
    child,
    closing
  )
}

/** The groups whose windows close: of the batch, then of the state. What stays is written.
  *
  * @param late up to which end windows were closed before, in epoch microseconds
  * @param due  up to which they close now
  */
private final class ClosedWindows(
    store: StateStore,
    rows: Iterator[InternalRow],
    groups: StreamingAggregationStateManager,
    groupEnd: WindowEnd,
    keyEnd: WindowEnd,
    late: Long,
    due: Long,
    metrics: StateMetrics
) extends NextIterator[InternalRow] {
  private val updated = metrics("numUpdatedStateRows")
  private val removed = metrics("numRemovedStateRows")
  private val output = metrics("numOutputRows")
  private val counted = CountedStateStoreProvider.rows(store)
  private val before = counted.flatMap(_.ends)
  private var after = WindowEnds()
  private var state: Iterator[UnsafeRowPair] = _
  private var beganNs = System.nanoTime

  override protected def getNext(): InternalRow = {
    var row = if (state == null) ofBatch() else null
    if (row == null) {
      if (state == null) look()
      row = ofState()
    }
    if (row == null) finished = true else output += 1
    row
  }

  private def ofBatch(): InternalRow = {
    var dueRow: InternalRow = null
    while (dueRow == null && rows.hasNext) {
      val group = rows.next().asInstanceOf[UnsafeRow]
      val end = groupEnd.of(group)
      val isNew = before.exists(end > _.last)
      if (end <= late) metrics("numRowsDroppedByWatermark") += 1
      else if (end <= due) {
        if (!isNew) {
          groups.remove(store, groups.getKey(group))
          removed += 1
        }
        dueRow = group
      } else {
        if (isNew) counted.get.adding(groups.put(store, group)) else groups.put(store, group)
        after = after.and(end)
        updated += 1
      }
    }
    dueRow
  }

  /** The state is gone through only when some window of it may be due. */
  private def look(): Unit = {
    metrics("allUpdatesTimeMs") += tookMs()
    state = before match {
      case Some(ends) if ends.first > due =>
        after = after.and(ends)
        Iterator.empty
      case _ => groups.iterator(store)
    }
  }

  private def ofState(): InternalRow = {
    var dueRow: InternalRow = null
    while (dueRow == null && state.hasNext) {
      val pair = state.next()
      val end = keyEnd.of(pair.key)
      if (end <= due) {
        groups.remove(store, pair.key)
        removed += 1
        dueRow = pair.value
      } else after = after.and(end)
    }
    dueRow
  }

  override protected def close(): Unit = {
    // With what the operators after it did, since they take one row after the other.
    metrics("allRemovalsTimeMs") += tookMs()
    groups.commit(store)
    metrics("commitTimeMs") += tookMs()
    counted.foreach(_.ends = after)
    metrics.of(store)
  }

  /** Milliseconds since the last call. */
  private def tookMs(): Long = {
    val since = beganNs
    beganNs = System.nanoTime
    NANOSECONDS.toMillis(beganNs - since)
  }
}

/** The metrics of a node with state, without the node. */
private final class StateMetrics(named: Map[String, SQLMetric], instances: Map[StateStoreInstanceMetric, SQLMetric]) extends Serializable {
  def apply(name: String): SQLMetric = named(name)

  /** Says what `store` is like when it is committed. */
  def of(store: StateStore): Unit = {
    val storeMetrics = store.metrics
    named("numStateStoreInstances") += 1
    named("numTotalStateRows") += storeMetrics.numKeys
    named("stateMemory") += storeMetrics.memoryUsedBytes
    storeMetrics.customMetrics.foreach { case (metric, value) => named(metric.name) += value }
    storeMetrics.instanceMetrics.foreach { case (metric, value) => instances(metric).set(metric.combine(instances(metric), value)) }
  }
}
