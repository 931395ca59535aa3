package io.headrace.spark

import java.util.{List => JavaList, Locale}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Column, DataFrame, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types._

import PackedRows._
import PartitionWatermark.named

/** An aggregate call: a function of `analyzer/functions/aggregates.py` by its name.
  *
  * @param name        the output column
  * @param arguments   columns; none for COUNT of rows. LISTAGG takes its delimiter from a second one
  * @param resultType  Spark's DDL, such as DECIMAL(38,2)
  */
final case class AggregateCall(
    name: String,
    function: String,
    arguments: JavaList[String],
    distinct: Boolean,
    resultType: String
)

/** GROUP BY over changes, and SELECT DISTINCT, which has no calls: the entry point for Python. */
object ChangelogAggregate {

  /** The aggregates of each group of rows, whenever a row changes what they show.
    *
    * A group is there while it has rows; without keys there is one group, which stays with a COUNT of 0. A row may be
    * taken away before it is added: what is shown in between is wrong for that long only. DOUBLEs are summed exactly and
    * rounded when shown. FIRST_VALUE and LAST_VALUE go by arrival.
    *
    * @param keys        columns to group by; a NULL in them is a value like others
    * @param op          the column that says whether a row is added, 1, or taken away, -1, or still there, 0; null: all are
    *                    added
    * @param output      `upsert`: new versions and ends of groups, marked by `deleted`; `signed`: rows that are added and
    *                    taken away, marked by `op`
    * @param ttl         a group that was not touched for so long is forgotten; with `repeats`, one that was touched without
    *                    a change gives its row again, signed with 0
    *
    * Returns the keys, a column for each call, and of [[InternalColumns]] `deleted` or `op`, and `rowtime` when the input has it: the newest
    * of the rows that changed the group. Throws IllegalArgumentException for a call that is none.
    */
  def aggregate(
      df: DataFrame,
      keys: JavaList[String],
      calls: JavaList[AggregateCall],
      op: String,
      output: String,
      ttl: TimeToLive
  ): DataFrame = {
    val signed = isSigned(output)
    val names = keys.asScala.toSeq
    val internal = InternalColumns.of(df)
    val timed = df.columns.contains(internal.rowtime) && !names.contains(internal.rowtime)
    val arguments = new AggregateArguments(df, insertOnly = op == null)
    val planned = calls.asScala.toArray.map(arguments.plan)
    val keySchema = StructType(names.map(df.schema(_)))
    val result = StructType(calls.asScala.map(call => StructField(call.name, DataType.fromDDL(call.resultType))).toSeq)
    val meaning = calls.asScala.map(_.copy(name = "").toString).mkString("\n")
    val form = (rowType(keySchema).json, arguments.form, meaning, op == null, timed)
    val processor = new AggregateProcessor(
      new KeyState("GROUP BY", 1, form.hashCode, ttl),
      ttl,
      AggregateForm(planned, result.fields.map(_.dataType), arguments.size, names.isEmpty, op == null, signed, timed)
    )
    val changed = df
      .select(
        packedKey(df, names).as("key"),
        (if (op == null) lit(1.toByte) else named(op).cast(ByteType)).as("op"),
        (if (timed) coalesce(unix_micros(named(internal.rowtime)), lit(NoTime)) else lit(NoTime)).as("time"),
        arguments.packed.as("arguments")
      )
      .groupBy(col("key"))
      .as[Array[Byte], AggregateInput](Encoders.BINARY, Encoders.product[AggregateInput])
      .transformWithState(processor, KeyedOperator.timeMode(ttl), OutputMode.Append())(Encoders.product[AggregateOutput])
      .toDF()
    val time = when(col("time") =!= lit(NoTime), timestamp_micros(col("time")))
    val change = if (signed) col("op").as(internal.op) else (col("op") === lit(-1)).as(internal.deleted)
    val shown = columns(col("key"), keySchema) ++ columns(col("row"), result)
    val eventTime = Option.when(timed)(time.as(internal.rowtime, df.schema(internal.rowtime).metadata))
    changed.select((shown ++ eventTime :+ change): _*)
  }

  private[spark] val NoTime = Long.MinValue

  private[spark] def isSigned(output: String): Boolean = output match {
    case "signed" => true
    case "upsert" => false
    case other    => throw new IllegalArgumentException(s"expected upsert or signed as the output, found $other")
  }
}

/** A call as it runs: what it does with a row, and which column of the arguments says whether the row counts; -1: all do. */
private[spark] final case class PlannedCall(accumulator: Accumulator, counts: Int)

/** The columns that the calls read, made into what their accumulators take. */
private[spark] final class AggregateArguments(df: DataFrame, insertOnly: Boolean) {
  private val taken = scala.collection.mutable.ArrayBuffer.empty[Column]

  def size: Int = taken.size

  def packed: Column = PackedRows.packed(taken.toSeq)

  /** Stands for the types of the columns. */
  def form: String = df.select(taken.toSeq: _*).schema.map(_.dataType.json).mkString(",")

  def plan(call: AggregateCall): PlannedCall = {
    val arguments = call.arguments.asScala.toSeq
    val present = arguments.map(named(_).isNotNull)
    val counts = if (present.isEmpty) -1 else take(present.reduce(_ && _))
    PlannedCall(accumulator(call, arguments), counts)
  }

  private def accumulator(call: AggregateCall, arguments: Seq[String]): Accumulator = {
    val kind = DataType.fromDDL(call.resultType)
    def bytes: Int = take(packedKey(df, arguments))
    def number: Int = take(named(single(call, arguments)).cast(DoubleType))
    def distinct(inner: Accumulator): Accumulator = if (call.distinct) new Distinct(inner, bytes) else inner
    def variance(sample: Boolean, root: Boolean) = distinct(new Variance(number, sample, root))
    def one(replaces: Boolean) = new OneValue(value(call, arguments, kind), new Values(kind), (_, _) => replaces)
    def list(gathering: Gathering) = new ValueList(value(call, arguments, kind), new Values(kind), gathering)
    call.function.toUpperCase(Locale.ROOT) match {
      case "COUNT"                   => distinct(new CountOf)
      case "SUM" | "AVG"             => distinct(sum(call, single(call, arguments), kind))
      case "VAR_POP"                 => variance(sample = false, root = false)
      case "VAR_SAMP" | "VARIANCE"   => variance(sample = true, root = false)
      case "STDDEV_POP"              => variance(sample = false, root = true)
      case "STDDEV_SAMP" | "STDDEV"  => variance(sample = true, root = true)
      case "MIN"                     => extreme(call, arguments, kind, greatest = false)
      case "MAX"                     => extreme(call, arguments, kind, greatest = true)
      case "FIRST_VALUE"             => if (insertOnly) one(replaces = false) else list(Gathering.First)
      case "LAST_VALUE"              => if (insertOnly) one(replaces = true) else list(Gathering.Last)
      case "COLLECT" | "COLLECT_SET" => collected(call, arguments, kind)
      case "LISTAGG"                 => texts(call, arguments)
      case other                     => throw new IllegalArgumentException(s"expected an aggregate function, found $other")
    }
  }

  private def sum(call: AggregateCall, argument: String, kind: DataType): Accumulator = {
    val average = call.function.equalsIgnoreCase("AVG")
    (df.schema(argument).dataType, kind) match {
      case (from: DecimalType, to: DecimalType) => new DecimalSum(call.function, take(named(argument)), from, to, average)
      case (_, LongType) if !average            => new WholeSum(call.function, take(named(argument).cast(LongType)))
      case (_, DoubleType)                      => new DoubleSum(take(named(argument).cast(DoubleType)), average)
      case (from, to) => throw new IllegalArgumentException(s"expected ${call.function} of a number, found $argument ${from.sql} to ${to.sql}")
    }
  }

  private def extreme(call: AggregateCall, arguments: Seq[String], kind: DataType, greatest: Boolean): Accumulator = {
    val (at, values) = (value(call, arguments, kind), new Values(kind))
    if (!insertOnly) new Extreme(at, values, greatest)
    else if (greatest) new OneValue(at, values, (next, kept) => values.compare(next, kept) > 0)
    else new OneValue(at, values, (next, kept) => values.compare(next, kept) < 0)
  }

  private def collected(call: AggregateCall, arguments: Seq[String], kind: DataType): Accumulator = kind match {
    case _: ArrayType if call.distinct || call.function.equalsIgnoreCase("COLLECT_SET") =>
      single(call, arguments)
      new ValueSet(take(packedKey(df, arguments)), new Values(df.schema(arguments.head).dataType), Gathering.All)
    case ArrayType(element, _) => new ValueList(value(call, arguments, element), new Values(element), Gathering.All)
    case other                 => throw new IllegalArgumentException(s"expected an ARRAY as the result of ${call.function}, found ${other.sql}")
  }

  private def texts(call: AggregateCall, arguments: Seq[String]): Accumulator = {
    val delimiter = if (arguments.size > 1) named(arguments(1)) else lit(",")
    val entry = StructType(Seq(StructField("text", StringType), StructField("delimiter", StringType)))
    val at = take(PackedRows.packed(Seq(struct(named(arguments.head).as("text"), delimiter.as("delimiter")).cast(entry))))
    if (call.distinct) new ValueSet(at, new Values(entry), Gathering.Texts)
    else new ValueList(at, new Values(entry), Gathering.Texts)
  }

  /** The one argument as the bytes of a value of type `kind`. */
  def value(call: AggregateCall, arguments: Seq[String], kind: DataType): Int =
    take(PackedRows.packed(Seq(named(single(call, arguments)).cast(kind))))

  private def single(call: AggregateCall, arguments: Seq[String]): String = arguments match {
    case Seq(argument) => argument
    case other         => throw new IllegalArgumentException(s"expected one argument of ${call.function}, found ${other.size}")
  }

  private def take(column: Column): Int = {
    val known = taken.indexOf(column)
    if (known < 0) taken += column
    if (known < 0) taken.size - 1 else known
  }
}
