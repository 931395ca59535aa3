package io.headrace.spark

import java.util.{List => JavaList, Map => JavaMap, UUID}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.sql.functions.{col, when}
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.{IntegerType, MetadataBuilder, StringType, TimestampType}

/** Watermarks that follow every partition of a source: the entry points for Python. */
object PartitionWatermark {

  // Spark's own watermark follows the greatest event time of a whole source. A reader that is quick with one partition and slow with
  // another, as each replay is, then drops the slow partition's rows as late. The minimum over partitions never does, but an empty
  // partition would hold it for ever: hence idleness, which must be proved by a read that reached the partition's end and found
  // nothing, since silence alone may be a slow reader. ADR 5 has the proof, and what happens when all partitions are idle.

  private val mapper = new ObjectMapper()

  /** `df` with `eventTime` as its event-time column, whose watermark is the minimum over the active partitions of all
    * sources of the query, each less its source's delay. The columns stay as they are.
    *
    * @param source         a name for the source, for people
    * @param eventTime      a TIMESTAMP column; a NULL in it says nothing about time
    * @param entity         the STRING column with the row's entity
    * @param partition      the INT column with the row's partition in its entity: a split of it, as a shard is
    * @param partitions     entity -> the partitions that it has now, by number; more may come while the query runs
    * @param growing        whether more entities may come too
    * @param delayMs        how far the watermark stays behind the greatest event time of each partition
    * @param idleTimeoutMs  after how long without a row a partition stops holding the watermark back; 0: never
    * @param allIdle        what to do when all partitions are idle: `last`, `hold`, or `flush` for a bounded run
    * @param deleted        a BOOLEAN column that marks deletions, which say nothing about time; null when there is none
    * @param windowMs       the size of the time windows that the rows go into, for counting late rows; 0: none
    * @param advanceMs      from the beginning of one window to that of the next; 0: each row begins one, a session
    * @param offsetMs       how much later than a multiple of `advanceMs` since 1970 a window begins; less than `advanceMs`
    * @param late           the id of the [[SideTopic]] to which late rows go as they came; null when they are dropped. `df` then has
    *                       the columns `sent` of [[InternalColumns]], of which the first is not in the result
    * @param clockStepMs    when `eventTime` is the time of the batch: how often a window ends; 0: rows have times of their own
    *
    * Counts (see [[RowCounts]]) `timeless_rows`, those with a NULL event time, and with windows `late_rows`: those whose
    * last window the watermark had closed, which Spark drops.
    *
    * Throws IllegalArgumentException for settings or columns that cannot be followed.
    */
  def assign(
      df: DataFrame,
      source: String,
      eventTime: String,
      entity: String,
      partition: String,
      partitions: JavaMap[String, JavaList[Integer]],
      growing: Boolean,
      delayMs: Long,
      idleTimeoutMs: Long,
      allIdle: String,
      deleted: String,
      windowMs: Long,
      advanceMs: Long,
      offsetMs: Long,
      late: String,
      clockStepMs: Long
  ): DataFrame = {
    val known = partitions.asScala.map { case (name, numbers) => name -> numbers.asScala.map(_.intValue).toSeq }.toMap
    val window = EventWindow.of(windowMs, advanceMs, offsetMs)
    val many = Option.when(growing || known.size > 1)(UUID.randomUUID().toString)
    val internal = InternalColumns.of(df)
    val settings =
      SourceSettings(source, delayMs, idleTimeoutMs, AllIdle.parse(allIdle), known, eventTime, window, Option(late), clockStepMs, many, internal)
    requireColumns(df, eventTime, entity, partition)
    val timed = EventTimeCode.column(named(eventTime), named(entity), named(partition), many)
    val code = Option(deleted).fold(timed)(flag => when(named(flag), EventTimeCode.Silent).otherwise(timed))
    val codeName = unusedName(df)
    val watermarked = df
      .select(col("*"), counting(code).as(codeName, settings.toMetadata))
      .withWatermark(codeName, s"$delayMs milliseconds")
    val kept = if (late == null) Nil else internal.sent
    // The name and the metadata, not the values, make Spark's operators take the column as event time.
    val columns = df.columns.filterNot(kept.headOption.contains).map { name =>
      if (name == eventTime) {
        val metadata = new MetadataBuilder()
          .withMetadata(df.schema(name).metadata)
          .putLong(SparkInternals.DelayKey, delayMs)
          .build()
        val time = FilterBarrier(SparkInternals.expression(named(name)), kept.map(name => SparkInternals.expression(named(name))))
        SparkInternals.column(time).as(name, metadata)
      } else named(name)
    }
    watermarked.select(columns.toIndexedSeq: _*)
  }

  /** Ends the event time of a running query that waits for data: everything that waits for the watermark comes out with
    * the next batch, and rows that arrive after it are late. False when a batch is being built or runs: call again.
    *
    * For stopping a query for good. A bounded replay needs no call: see `allIdle = flush`.
    */
  def flush(query: StreamingQuery): Boolean = QueryRun.byRunId(query.runId).exists(_.flush())

  /** Prepares the checkpoint of a query for a start; call it before each. Returns whether there was anything to do.
    *
    * After a restart Spark runs no batch until there is a new row to read, whatever the watermark says. What the last
    * batch made ready, or what an idle partition would release, would wait for that: for ever, where a source has no
    * more, or in a bounded run that was killed between its last row and its flush.
    */
  def resume(spark: SparkSession, checkpoint: String): Boolean =
    SparkInternals.logBatchWithoutRows(spark, checkpoint, QueryWatermark.EndOfTime)

  /** The state of the watermark of a run as JSON; `{"active": false}` with nothing else once the run has ended, or before
    * its first batch.
    */
  def describe(runId: String): String = {
    val root = mapper.createObjectNode()
    val running = QueryRun.byRunId(UUID.fromString(runId))
    root.put("active", running.isDefined)
    running.foreach { run =>
      run.watermark.combined() match {
        case Some(ms) => root.put("watermarkMs", ms)
        case None     => root.putNull("watermarkMs")
      }
      val sources = root.putArray("sources")
      run.watermark.snapshot().foreach { source =>
        val node = sources.addObject()
        node.put("name", source.settings.name)
        node.put("delayMs", source.settings.delayMs)
        node.put("idleTimeoutMs", source.settings.idleMs)
        val list = node.putArray("partitions")
        source.partitions.foreach { partition =>
          val entry = list.addObject()
          entry.put("entity", partition.entity).put("partition", partition.partition)
          partition.maxMs match {
            case Some(ms) => entry.put("maxEventTimeMs", ms)
            case None     => entry.putNull("maxEventTimeMs")
          }
          entry.put("idle", partition.idle).put("active", !partition.idle)
        }
      }
    }
    mapper.writeValueAsString(root)
  }

  private def requireColumns(df: DataFrame, eventTime: String, entity: String, partition: String): Unit =
    for ((name, expected) <- Seq(eventTime -> TimestampType, entity -> StringType, partition -> IntegerType)) {
      val kind = df.schema.find(_.name == name).map(_.dataType)
      require(
        kind.contains(expected),
        s"expected a ${expected.sql} column $name for the watermark, found ${kind.fold("no such column")(_.sql)}"
      )
    }

  private def counting(code: Column): Column =
    SparkInternals.column(CountingEventTime(SparkInternals.expression(code), RowCounts.registered()))

  private def unusedName(df: DataFrame): String =
    Iterator.iterate(InternalColumns.Prefix + "watermark")(_ + "_").find(name => !df.columns.contains(name)).get

  private[spark] def named(column: String): Column = col(quoted(column))

  private[spark] def quoted(column: String): String = s"`${column.replace("`", "``")}`"
}
