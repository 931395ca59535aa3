package org.apache.spark.sql.headrace

import java.util.UUID
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.sql.{functions, Column, DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, BindReferences, Expression, If, Literal}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit, SparkDataStream, SupportsAdmissionControl}
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.AvailableNowTrigger
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStatsAccum, EventTimeWatermarkExec, StateStoreWriter}
import org.apache.spark.sql.execution.streaming.runtime._
import org.apache.spark.sql.execution.streaming.sources.{WriteToMicroBatchDataSource, WriteToMicroBatchDataSourceV1}
import org.apache.spark.sql.execution.streaming.state.headrace.PromptSaveExec
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.{BooleanType, DataType, MapType, StructType}

/** Every use of a class or member that Spark keeps to itself, in one place: the list to check at an upgrade.
  *
  * It lives under Spark's package for what Scala hides by package; what is hidden by class goes by reflection, and
  * fails at the first batch with the member's name when Spark has renamed it.
  */
object SparkInternals {

  def column(expression: Expression): Column = ExpressionUtils.column(expression)

  def expression(column: Column): Expression = ExpressionUtils.expression(column)

  /** A column of `df` with one spelling of each number that has several: equal values have equal bytes, in structs too. */
  def normalized(df: DataFrame, name: String): Column =
    ExpressionUtils.column(NormalizeFloatingNumbers.normalize(ExpressionUtils.expression(df.col(name))))

  /** True if values of `kind` cannot be compared because they contain a MAP. */
  def hasMap(kind: DataType): Boolean = kind.existsRecursively(_.isInstanceOf[MapType])

  /** `text`, a BOOLEAN over the columns of `schema`, ready to be compiled: its columns are bound by their places. */
  def condition(session: SparkSession, schema: StructType, text: String): Expression = {
    val columns = StructType(schema.fields.map(_.copy(nullable = true)))
    val rows = session.createDataFrame(session.sparkContext.emptyRDD[Row], columns)
    val plan = rows.select(functions.expr(text)).asInstanceOf[classic.Dataset[Row]].queryExecution.optimizedPlan
    val condition = bound(plan.output.head, plan)
    require(condition.dataType == BooleanType, s"expected a BOOLEAN over columns of both sides as a join's condition, found $text")
    condition
  }

  /** An expression over what `below` gives as one over the rows at its bottom: what an expression has several times, as
    * NULLIF and BETWEEN have their operand, Spark computes in a projection of its own.
    */
  private def bound(expression: Expression, below: LogicalPlan): Expression = below match {
    case Project(columns, rows) =>
      val computed = AttributeMap(columns.collect { case alias: Alias => alias.toAttribute -> alias.child })
      bound(expression.transform { case column: Attribute => computed.getOrElse(column, column) }, rows)
    // The functions of users are called row by row, where they stand in a condition.
    case node: FunctionCalls =>
      val values = node.calls.zip(node.guards).map { case (call, guard) => If(guard, call, Literal(null, call.dataType)) }
      val computed = AttributeMap(node.results.zip(values))
      bound(expression.transform { case column: Attribute => computed.getOrElse(column, column) }, node.child)
    case rows => BindReferences.bindReference(expression, rows.output)
  }

  /** `df`, whose watermark is `delayMs` behind from its last `transformWithState` on. */
  def delayed(df: DataFrame, delayMs: Long): DataFrame = {
    def mark(plan: LogicalPlan): LogicalPlan = plan match {
      case node: TransformWithState => DelayedWatermark(node, delayMs)
      case other                    => other.mapChildren(mark)
    }
    val rows = df.asInstanceOf[classic.DataFrame]
    classic.Dataset.ofRows(rows.sparkSession, mark(rows.logicalPlan))
  }

  /** The column `name` of `df` as its plan has it. */
  def attribute(df: DataFrame, name: String): Attribute =
    df.asInstanceOf[classic.DataFrame].logicalPlan.output.find(_.name == name).getOrElse(
      throw new IllegalArgumentException(s"expected the column $name, found ${df.columns.mkString(", ")}"))

  /** The rows of the node that `above` makes over the plan of `df`. */
  def over(df: DataFrame, above: LogicalPlan => LogicalPlan): DataFrame = {
    val rows = df.asInstanceOf[classic.DataFrame]
    classic.Dataset.ofRows(rows.sparkSession, above(rows.logicalPlan))
  }

  /** The metadata key by which Spark knows an event-time column; its value is the delay in ms. */
  val DelayKey: String = EventTimeWatermark.delayKey

  /** The id of the streaming query whose batch this thread is planning, or None outside of one. */
  def plannedQuery: Option[UUID] =
    classic.SparkSession.getActiveSession
      .flatMap(session => Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)))
      .map(UUID.fromString)

  /** True if `plan` is that of a whole batch which this thread runs, so that it is planned already. */
  def isRunning(plan: LogicalPlan): Boolean = {
    val batch = plan match {
      case write: WriteToMicroBatchDataSource   => write.batchId.map(write.queryId -> _)
      case write: WriteToMicroBatchDataSourceV1 => write.batchId.map(write.queryId -> _)
      case _                                    => None
    }
    def running = classic.SparkSession.getActiveSession
      .flatMap(session => Option(session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)))
      .map(id => SQLExecution.getQueryExecution(id.toLong))
      .collect { case execution: IncrementalExecution => execution.queryId.toString -> execution.currentBatchId }
    batch.isDefined && batch == running
  }

  /** The running query with this id, when it runs in micro-batches. */
  def execution(session: SparkSession, queryId: UUID): Option[MicroBatchExecution] =
    Option(session.asInstanceOf[classic.SparkSession].sharedState.activeStreamingQueries.get(queryId)).collect {
      case microBatch: MicroBatchExecution => microBatch
    }

  def execution(query: StreamingQuery): Option[MicroBatchExecution] = query match {
    case wrapper: StreamingQueryWrapper =>
      Some(wrapper.streamingQuery).collect { case microBatch: MicroBatchExecution => microBatch }
    case _ => None
  }

  /** Every expression in the plan of a query that runs, or has run. */
  def expressions(query: StreamingQuery): Seq[Expression] = execution(query).toSeq.flatMap { running =>
    running.logicalPlan.flatMap(_.expressions).flatMap(_.collect { case expression => expression })
  }

  /** The batch that a task works for; -1 outside of a streaming query. */
  def taskBatch(task: TaskContext): Long =
    Option(task).flatMap(known => Option(known.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY))).fold(-1L)(_.toLong)

  /** The thread that plans a query's batches. */
  def batchThread(query: StreamingQuery): Thread = query match {
    case wrapper: StreamingQueryWrapper => batchThread(wrapper.streamingQuery)
    case execution: StreamExecution     => execution.queryExecutionThread
    case other                          => throw new IllegalArgumentException(s"expected a query of Spark's own, found ${other.getClass}")
  }

  /** Node id -> the watermark column's metadata and the streams it reads, for every watermark node of the query. */
  def watermarkNodes(execution: MicroBatchExecution): Seq[(EventTimeWatermark, Seq[SparkDataStream])] =
    execution.logicalPlan.collect { case node: EventTimeWatermark =>
      val streams = node.collect {
        case scan: StreamingDataSourceV2ScanRelation => scan.stream
        case scan: StreamingExecutionRelation        => scan.source
      }
      (node, streams)
    }

  /** True if an operator of the query compares event times themselves, not only the ends of windows. */
  def comparesEventTimes(execution: MicroBatchExecution): Boolean =
    execution.logicalPlan.exists {
      case _: Deduplicate | _: DeduplicateWithinWatermark                                                 => true
      case _: TransformWithState | _: TransformWithStateInPySpark                                         => true
      case _: FlatMapGroupsWithState | _: FlatMapGroupsInPandasWithState                                  => true
      case Join(left, right, _, _, _)                                                                     => left.isStreaming && right.isStreaming
      case _                                                                                              => false
    }

  def readsToAnEnd(execution: MicroBatchExecution): Boolean = execution.trigger == AvailableNowTrigger

  /** The offsets of the batch that is planned or was last polled, as JSON: (start, end, end of the source). */
  def offsets(execution: MicroBatchExecution, stream: SparkDataStream): (Option[String], Option[String], Option[String]) = {
    val context = execution.getLatestExecutionContext()
    (
      context.startOffsets.get(stream).map(_.json),
      context.endOffsets.get(stream).map(_.json),
      context.latestOffsets.get(stream).map(_.json)
    )
  }

  /** Time of the last poll of the sources. */
  def polledMs(execution: MicroBatchExecution): Long =
    execution.getLatestExecutionContext().offsetSeqMetadata.batchTimestampMs

  /** Up to which time rows of the batch that runs are late: what the batch before has closed, which for Spark's own operators is
    * by the watermark of the batch before that.
    */
  def lateMs(execution: MicroBatchExecution): Long = lateMs(execution, execution.lastExecution.executedPlan)

  /** The same while the batch is planned, as `plan`. Without state, no operator lags behind. */
  def lateMs(execution: MicroBatchExecution, plan: SparkPlan): Long = {
    val batch = execution.lastExecution
    val lags = plan.exists(node => node.isInstanceOf[StateStoreWriter] && !node.isInstanceOf[PromptSaveExec])
    val (number, metadata) =
      if (lags) (batch.currentBatchId - 1, batch.prevOffsetSeqMetadata) else (batch.currentBatchId, Some(batch.offsetSeqMetadata))
    metadata.fold(EarlyWatermark.NoneMs)(known => EarlyWatermark.ofBatch(number, known.batchWatermarkMs))
  }

  /** Lets the watermark of a query that has not planned a batch yet begin as [[EarlyWatermark]] says. */
  def beginEarly(execution: MicroBatchExecution): Unit = {
    val field = classOf[MicroBatchExecution].getDeclaredField("watermarkPropagator")
    field.setAccessible(true)
    field.get(execution) match {
      case spark: PropagateWatermarkSimulator if spark.getClass == classOf[PropagateWatermarkSimulator] =>
        field.set(execution, new EarlyWatermark(() => member[WatermarkTracker](execution, "watermarkTracker")))
      case other => throw new IllegalStateException(s"expected Spark's own PropagateWatermarkSimulator in a query that starts, found $other")
    }
  }

  /** True if the batch that is planned reads the last rows of every source. Only for a run with an end, and only in
    * the query's own thread.
    */
  def readsLastRows(execution: MicroBatchExecution): Boolean = {
    val ends = execution.getLatestExecutionContext().endOffsets
    member[Map[SparkDataStream, ReadLimit]](execution, "uniqueSources").keys.forall {
      case wrapper: AvailableNowDataStreamWrapper => nothingAfter(wrapper, ends.get(wrapper.delegate))
      case source: SupportsAdmissionControl       => nothingAfter(source, ends.get(source))
      case _                                      => false
    }
  }

  private def nothingAfter(source: SupportsAdmissionControl, end: Option[Offset]): Boolean =
    end match {
      case Some(offset) =>
        val typed = source match {
          case stream: SparkDataStream => stream.deserializeOffset(offset.json)
        }
        Option(source.latestOffset(typed, ReadLimit.allAvailable())).forall(_.json == offset.json)
      case None => Option(source.latestOffset(source.initialOffset(), ReadLimit.allAvailable())).isEmpty
    }

  /** Raises the watermark of a query that waits for data, so that its next poll runs a batch without new rows.
    *
    * `raise` is asked for the new watermark, with the query kept from building a batch. Returns whether it was raised;
    * false also when a batch is still being built after `patienceMs`, or runs.
    */
  def raiseWatermark(execution: MicroBatchExecution, patienceMs: Long)(raise: => Option[Long]): Boolean = {
    val buildsBatch = member[ReentrantLock](execution, "awaitProgressLock")
    buildsBatch.tryLock(patienceMs, TimeUnit.MILLISECONDS) && {
      try
        member[Boolean](execution, "noNewData") && raise.exists { watermarkMs =>
          val tracker = member[WatermarkTracker](execution, "watermarkTracker")
          val higher = watermarkMs > tracker.currentWatermark
          if (higher) {
            // Spark has already worked out the next batch with the old watermark, and refuses to see it change.
            val propagator = member[WatermarkPropagator](execution, "watermarkPropagator")
            propagator.purge(execution.getLatestExecutionContext().batchId)
            tracker.setWatermark(watermarkMs)
          }
          higher
        }
      finally buildsBatch.unlock()
    }
  }

  /** Logs one more batch without new rows in the checkpoint of a query that does not run, with the watermark that its
    * last batch left. The next start runs the logged batch. Returns whether that was done: not where there is no
    * checkpoint, its last batch is to be run again in any case, or that had the watermark `endMs` already.
    */
  def logBatchWithoutRows(session: SparkSession, checkpoint: String, endMs: Long): Boolean = {
    val classicSession = session.asInstanceOf[classic.SparkSession]
    val commits = new Path(checkpoint, "commits")
    val exists = commits.getFileSystem(classicSession.sessionState.newHadoopConf()).exists(commits)
    exists && {
      val offsetLog = new OffsetSeqLog(classicSession, new Path(checkpoint, "offsets").toString)
      val last = for {
        (batch, offsets) <- offsetLog.getLatest()
        (committed, commit) <- new CommitLog(classicSession, commits.toString).getLatest()
        metadata <- offsets.metadata
        if batch == committed && metadata.batchWatermarkMs < endMs
        watermarkMs = math.max(EarlyWatermark.ofBatch(batch, metadata.batchWatermarkMs), commit.nextBatchWatermarkMs)
      } yield offsetLog.add(batch + 1, offsets.copy(metadata = Some(metadata.copy(batchWatermarkMs = watermarkMs))))
      last.getOrElse(false)
    }
  }

  /** A file in the checkpoint of a query. Made once for a run: the settings that it takes are copied whole. */
  final class CheckpointFile(execution: MicroBatchExecution, name: String) {
    private val root = new Path(execution.resolvedCheckpointRoot)
    private val path = new Path(root, name)
    private val files = CheckpointFileManager.create(root, execution.sparkSession.sessionState.newHadoopConf())

    /** Content of the file; None if it is missing. */
    def read(): Option[Array[Byte]] = Option.when(files.exists(path)) {
      val in = files.open(path)
      try in.readAllBytes()
      finally in.close()
    }

    /** Replaces it; a reader sees the old one or the new one. */
    def write(content: Array[Byte]): Unit = {
      val out = files.createAtomic(path, overwriteIfPossible = true)
      try {
        out.write(content)
        out.close()
      } catch {
        case error: Throwable =>
          out.cancel()
          throw error
      }
    }
  }

  /** Makes `node` report through `statistics`. In the parent's field, since generated code serialises the plan, and a
    * second accumulator that nobody registered would fail the task.
    */
  def replaceStatistics(node: EventTimeWatermarkExec, statistics: EventTimeStatsAccum): Unit =
    statisticsField.set(node, statistics)

  private lazy val statisticsField = {
    val field = classOf[EventTimeWatermarkExec].getDeclaredField("eventTimeStats")
    field.setAccessible(true)
    field
  }

  /** The time after which a query asks its sources again if they had no new rows. */
  def pollingDelayMs(execution: MicroBatchExecution): Long = member[Long](execution, "pollingDelayMs")

  /** Sets that time, which Spark reads from its settings when a query is created. */
  def setPollingDelayMs(execution: MicroBatchExecution, delayMs: Long): Unit = {
    val field = classOf[StreamExecution].getDeclaredField("pollingDelayMs")
    field.setAccessible(true)
    field.setLong(execution, delayMs)
  }

  private def member[T](execution: MicroBatchExecution, name: String): T = {
    val owners = Iterator.iterate[Class[_]](classOf[MicroBatchExecution])(_.getSuperclass).takeWhile(_ != null)
    val method = owners
      .flatMap(_.getDeclaredMethods.find(method => method.getName == name && method.getParameterCount == 0))
      .nextOption()
      .getOrElse(throw new NoSuchMethodException(s"this version of Spark has no MicroBatchExecution.$name"))
    method.setAccessible(true)
    method.invoke(execution).asInstanceOf[T]
  }
}
