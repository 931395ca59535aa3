package io.headrace.spark

import java.util.{List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.catalyst.expressions.{Expression, RowOrdering}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types._

import PackedRows._
import PartitionWatermark.named

/** A variable of a pattern, which takes consecutive rows.
  *
  * @param least, most  how many rows it takes; a `most` of -1: there is no bound
  * @param greedy       whether it takes all rows that it may; a reluctant one takes as few as the pattern allows
  * @param condition    BOOLEAN SQL over the names of navigations that each of its rows meets, which is counted as taken when
  *                     it is asked; null: every row does
  */
final case class PatternVariable(name: String, least: Int, most: Int, greedy: Boolean, condition: String)

/** A value that is read from the rows of a match, or of what may become one.
  *
  * @param name      what conditions, and the columns of the result, call it
  * @param kind      `first`, `last`: of the variable's row with the number `offset` (from 0), from the beginning or from the
  *                  end; `prev`: of the row that stands `offset` (from 1) before the variable's last one in the partition, which
  *                  may be before the match; `values`: of all rows of the variable, an ARRAY. Where there is no such row it
  *                  is NULL, and the ARRAY is empty
  * @param variable  null: all rows of the match
  */
final case class Navigation(name: String, kind: String, variable: String, column: String, offset: Int)

/** MATCH_RECOGNIZE: rows of a partition that follow each other as a pattern says. The entry point for Python. */
object MatchRecognize {

  /** Every match of `pattern`, as one row.
    *
    * The rows of a partition are gone through in the order of time, `orderBy` and arrival, when the watermark has passed
    * them. At every row a match may begin, and each row after it must be taken by the pattern, or there is none. A match
    * is complete with the first row after which the rest of the pattern may be empty. Rows without time match nothing;
    * a row that the watermark had passed when it came is late: it is dropped, and counted by Spark.
    *
    * The result has `time`, still the event time, which is that of the match's last row, and a column for each navigation.
    * After `next_row` a match comes out with its last row. Otherwise it waits while one that began before it may still be
    * found, and comes out behind the watermark then: what follows has a watermark that is `withinMs` behind, and without
    * it such a match may be late there.
    *
    * @param time           an event-time column that carries a watermark
    * @param partitionKeys  columns; a NULL in them is a value like others. None: all rows are one partition
    * @param orderBy        columns by which rows of the same time are ordered, with `descending` and `nullsFirst` for each
    * @param pattern        the variables in their order, each once
    * @param skip           where another match may begin after one: `next_row`, after its first row; `past_last_row`; `first`
    *                       or `last`, with the first or the last row of the variable `skipTo`, and as after `next_row` where
    *                       that has none, or it is the match's first row
    * @param withinMs       a match has no row that is so much later than its first one, or more; 0: it may last
    * @param stateTtlMs     likewise, and rows so old are not read any more; 0: for as long as they are needed
    *
    * Throws IllegalArgumentException for arguments that do not fit together.
    */
  def recognize(
      df: DataFrame,
      time: String,
      partitionKeys: JavaList[String],
      orderBy: JavaList[String],
      descending: JavaList[java.lang.Boolean],
      nullsFirst: JavaList[java.lang.Boolean],
      pattern: JavaList[PatternVariable],
      navigations: JavaList[Navigation],
      skip: String,
      skipTo: String,
      withinMs: Long,
      stateTtlMs: Long
  ): DataFrame = {
    val (keys, order) = (partitionKeys.asScala.toSeq, orderBy.asScala.toSeq)
    val (variables, navigated) = (pattern.asScala.toSeq, navigations.asScala.toSeq)
    requireTime(df.schema, time)
    requireOrder(df.schema, order, descending.size, nullsFirst.size)
    requirePattern(variables)
    requireNavigations(variables, navigated, time)
    require(withinMs >= 0, s"expected a time of 0 ms (none) or more for a match, found $withinMs")
    require(stateTtlMs >= 0, s"expected a time to live of 0 ms (off) or more, found $stateTtlMs")

    val row = StructType((navigated.map(_.column) ++ order).distinct.map(df.schema(_)))
    val places = variables.map(_.name).zipWithIndex.toMap.updated(null, Run.All)
    val values = navigated.map(value(_, places, row))
    val result = StructType(navigated.zip(values).map { case (navigation, value) => StructField(navigation.name, value.result) })
    val directions = descending.asScala.zip(nullsFirst.asScala)
    val form = MatchForm(
      RowPattern(variables, parseSkip(skip, skipTo, places)),
      row.length,
      RowOrder(order.zip(directions).map { case (name, (down, nulls)) =>
        OrderColumn(row.fieldIndex(name), row(name).dataType, down, nulls)
      }),
      values,
      variables.map(condition(df, result, _)),
      withinMs
    )
    val keyTypes = keys.map(df.schema(_).dataType.json)
    val rowFormat = (keyTypes, rowType(row).json, variables, navigated, skip, skipTo, withinMs).hashCode
    val processor = new MatchProcessor(form, stateTtlMs, rowFormat)
    val key = packedKey(df, keys)
    // Spark drops the rows of a column with this mark that the watermark had reached before the batch: a millisecond later than
    // their time, since one of the watermark's own time is not late.
    val mark = new MetadataBuilder().putLong(SparkInternals.DelayKey, 0).build()
    val matches = df
      .where(named(time).isNotNull)
      .select(
        KeyGroups.group(key).as("group"),
        unix_micros(named(time)).as("time"),
        key.as("key"),
        (if (row.isEmpty) lit(Array.emptyByteArray) else packed(row.fieldNames.map(named).toSeq)).as("row"),
        (named(time) + expr("INTERVAL '0.001' SECOND")).as("late", mark)
      )
      .groupBy(col("group"))
      .as[Int, MatchInput](Encoders.scalaInt, Encoders.product[MatchInput])
      .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append())(Encoders.product[MatchOutput])
      .toDF()
    val shown = matches.select(timestamp_micros(col("time")).as(time, df.schema(time).metadata) +: columns(col("row"), result): _*)
    // A match that waits comes out so long after its last row at most.
    if (skip == "next_row" || withinMs == 0) shown else SparkInternals.delayed(shown, withinMs)
  }

  private def value(navigation: Navigation, variables: Map[String, Int], row: StructType): RunValue = {
    val (variable, offset) = (variables(navigation.variable), navigation.offset)
    val (place, least) = navigation.kind match {
      case "first"  => (RowPlace.First(variable, offset), 0)
      case "last"   => (RowPlace.Last(variable, offset), 0)
      case "prev"   => (RowPlace.Before(variable, offset), 1)
      case "values" => (RowPlace.Each(variable), 0)
      case other    => throw new IllegalArgumentException(s"expected first, last, prev or values as a navigation, found $other")
    }
    require(offset >= least, s"expected an offset of $least or more for ${navigation.kind}, found $offset")
    RunValue(place, row.fieldIndex(navigation.column), row(navigation.column).dataType)
  }

  private def parseSkip(skip: String, to: String, variables: Map[String, Int]): Skip = {
    val expected = s"expected a variable of the pattern with first and last, and with them alone, found $skip and $to"
    require(variables.contains(to) && (to != null) == Set("first", "last").contains(skip), expected)
    skip match {
      case "next_row"      => Skip.NextRow
      case "past_last_row" => Skip.PastLastRow
      case "first"         => Skip.ToVariable(variables(to), last = false)
      case "last"          => Skip.ToVariable(variables(to), last = true)
      case other => throw new IllegalArgumentException(s"expected next_row, past_last_row, first or last after a match, found $other")
    }
  }

  /** The condition of a variable over `values`, ready to be compiled; null for none. */
  private def condition(df: DataFrame, values: StructType, variable: PatternVariable): Expression =
    if (variable.condition == null) null
    else
      try SparkInternals.condition(df.sparkSession, values, variable.condition)
      catch {
        case error: IllegalArgumentException =>
          val expected = s"expected a BOOLEAN over navigations as the condition of ${variable.name}, found ${variable.condition}"
          throw new IllegalArgumentException(expected, error)
      }

  private def requireTime(schema: StructType, time: String): Unit = {
    val field = schema(time)
    require(
      field.dataType == TimestampType && field.metadata.contains(SparkInternals.DelayKey),
      s"expected a TIMESTAMP with a watermark as the time of the rows, found $time ${field.dataType.sql}" +
        (if (field.dataType == TimestampType) " without one" else "")
    )
  }

  private def requireOrder(schema: StructType, order: Seq[String], directions: Int, nulls: Int): Unit = {
    require(order.size == directions && order.size == nulls, s"expected a direction for each of the ${order.size} columns of the order")
    order.foreach { name =>
      val kind = schema(name).dataType
      require(RowOrdering.isOrderable(kind), s"expected columns with an order, found $name ${kind.sql}")
    }
  }

  private def requirePattern(variables: Seq[PatternVariable]): Unit = {
    requireDistinct("variables", variables.map(_.name))
    variables.foreach { case PatternVariable(name, least, most, _, _) =>
      val fits = least >= 0 && (most == -1 || most >= math.max(least, 1))
      require(fits, s"expected a range of repetitions with 0 <= least <= most and most >= 1, found $least to $most for $name")
    }
    val takes = variables.exists(_.least > 0)
    require(takes, s"expected a pattern that takes a row, found ${variables.map(_.name).mkString(" ")}, which may be empty")
  }

  private def requireNavigations(variables: Seq[PatternVariable], navigations: Seq[Navigation], time: String): Unit = {
    requireDistinct("columns", time +: navigations.map(_.name))
    val known = variables.map(_.name)
    navigations.foreach { case Navigation(name, _, variable, _, _) =>
      require(variable == null || known.contains(variable), s"expected one of ${known.mkString(", ")} for $name, found $variable")
    }
  }

  private def requireDistinct(what: String, names: Seq[String]): Unit = {
    val twice = names.diff(names.distinct).distinct
    require(twice.isEmpty, s"expected $what of different names, found ${twice.mkString(", ")} more than once")
  }
}
