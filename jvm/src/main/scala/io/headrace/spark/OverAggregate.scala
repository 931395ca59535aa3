package io.headrace.spark

import java.util.{List => JavaList}
import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types._

import PackedRows._
import PartitionWatermark.named

/** A function over the rows of a frame, which ends with the current row.
  *
  * @param name        the output column
  * @param function    COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, or LAG
  * @param arguments   columns; none for COUNT of rows. LAG takes what it gives where there is no row from a second one
  * @param resultType  Spark's DDL, such as DECIMAL(38,2)
  * @param unit        `rows`: by number; `range`: by time, and rows of one time share their frame
  * @param preceding   how many rows, or milliseconds, before the current row the frame begins; -1: with the first row. For LAG,
  *                    which requires `rows`, which row it reads
  */
final case class OverCall(
    name: String,
    function: String,
    arguments: JavaList[String],
    resultType: String,
    unit: String,
    preceding: Long
)

/** `function(…) OVER (PARTITION BY … ORDER BY time …)`. The entry point for Python. */
object OverAggregate {

  /** Every row of `df` with the results of `calls`, once the watermark is past the row's time.
    *
    * The rows of a partition come out in the order of time, and of arrival among equal times. A row has to wait until the
    * watermark has passed its millisecond, since another row of the same time belongs to its frame. Rows without time are
    * dropped; so is a row that the watermark had passed when it came, which Spark counts.
    *
    * @param time           an event-time column that carries a watermark
    * @param partitionKeys  columns; a NULL in them is a value like others. None: all rows are one partition
    * @param stateTtlMs     a partition without a row for so long begins anew; 0: never. Where all frames are a span of time
    *                       a partition is forgotten with its last row, whatever this is
    *
    * Returns the columns of `df` but those that are keys or arguments, and a column for each call. Throws
    * IllegalArgumentException for arguments that do not fit together.
    */
  def over(
      df: DataFrame,
      time: String,
      partitionKeys: JavaList[String],
      calls: JavaList[OverCall],
      stateTtlMs: Long
  ): DataFrame = {
    requireTime(df.schema, time)
    require(stateTtlMs >= 0, s"expected a time to live of 0 ms (off) or more, found $stateTtlMs")
    val (keys, called) = (partitionKeys.asScala.toSeq, calls.asScala.toSeq)
    called.foreach(requireFrame)
    val arguments = new AggregateArguments(df, insertOnly = true)
    val frames = called.indices.groupBy(at => (called(at).unit, called(at).preceding)).toSeq.sortBy(_._2.head).map {
      case ((unit, preceding), places) =>
        val byRows = unit == "rows"
        // No time is so long, and a time less it does not overflow.
        val span = if (preceding < 0 || byRows) preceding else math.min(MILLISECONDS.toMicros(preceding), Long.MaxValue / 4)
        FrameForm(byRows, span, places.map(at => PlacedCall(at, frameCall(arguments, called(at)))).toArray)
    }
    val result = StructType(called.map(call => StructField(call.name, DataType.fromDDL(call.resultType))))
    val row = without(df.schema, keys ++ called.flatMap(_.arguments.asScala): _*)
    val form = OverForm(frames.toArray, result.fields.map(_.dataType), arguments.size)
    val expiry = form.expiryMicros(MILLISECONDS.toMicros(stateTtlMs))
    val keyTypes = keys.map(df.schema(_).dataType.json)
    val meaning = called.map(_.copy(name = "").toString).mkString("\n")
    val format = (keyTypes, rowType(row).json, arguments.form, meaning, expiry > 0).hashCode
    val processor = new OverProcessor(form, expiry, format)
    val key = packedKey(df, keys)
    // Spark drops the rows of a column with this mark that the watermark had reached before the batch: a millisecond later than
    // their time, since a row of the watermark's own time is not late.
    val mark = new MetadataBuilder().putLong(SparkInternals.DelayKey, 0).build()
    val read = if (arguments.size == 0) lit(Array.emptyByteArray) else arguments.packed
    df.where(named(time).isNotNull)
      .select(
        KeyGroups.group(key).as("group"),
        unix_micros(named(time)).as("time"),
        key.as("key"),
        packed(Seq(read, packed(row.fieldNames.map(named).toSeq))).as("row"),
        (named(time) + expr("INTERVAL '0.001' SECOND")).as("late", mark)
      )
      .groupBy(col("group"))
      .as[Int, WaitingRow](Encoders.scalaInt, Encoders.product[WaitingRow])
      .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append())(Encoders.product[OverOutput])
      .toDF()
      .select(columns(col("row"), row) ++ columns(col("results"), result): _*)
  }

  private def frameCall(arguments: AggregateArguments, call: OverCall): FrameCall = {
    val kind = DataType.fromDDL(call.resultType)
    val aggregate = AggregateCall(call.name, call.function, call.arguments, distinct = false, call.resultType)
    def value: Int = arguments.value(aggregate, call.arguments.asScala.take(1).toSeq, kind)
    call.function match {
      case "COUNT" | "SUM" | "AVG" => new FoldedCall(arguments.plan(aggregate))
      case "MIN" | "MAX" =>
        if (call.preceding < 0) new FoldedCall(arguments.plan(aggregate))
        else new SlidingExtreme(value, new Values(kind), greatest = call.function == "MAX")
      case "FIRST_VALUE" =>
        val values = new Values(kind)
        if (call.preceding < 0) new FoldedCall(PlannedCall(new OneValue(value, values, (_, _) => false), -1))
        else new OldestValue(value, values)
      case "LAST_VALUE" => new NewestValue(value, new Values(kind))
      case "LAG" =>
        val otherwise = call.arguments.asScala.drop(1).toSeq
        val default = if (otherwise.isEmpty) -1 else arguments.value(aggregate, otherwise, kind)
        new LaggedValue(value, default, new Values(kind), call.preceding)
      case other => throw new IllegalArgumentException(s"expected a function over a frame, found $other")
    }
  }

  private def requireTime(schema: StructType, time: String): Unit = {
    val field = schema(time)
    require(
      field.dataType == TimestampType && field.metadata.contains(SparkInternals.DelayKey),
      s"expected a TIMESTAMP with a watermark as the time of the rows, found $time ${field.dataType.sql}" +
        (if (field.dataType == TimestampType) " without one" else "")
    )
  }

  private def requireFrame(call: OverCall): Unit = {
    require(Set("rows", "range").contains(call.unit), s"expected a frame of rows or of a range, found ${call.unit}")
    require(call.preceding >= -1, s"expected a frame that starts before the current row, found ${call.preceding}")
    require(
      call.function != "LAG" || call.unit == "rows" && call.preceding >= 0,
      s"expected a number of rows for LAG, found ${call.preceding} of ${call.unit}"
    )
  }
}
