package io.headrace.spark

import java.util.{List => JavaList}

import scala.collection.immutable.BitSet
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
  * @param kind      `number`: none, but the number of the match in its partition, from 1; `first`, `last`: of the variable's row with the number `offset` (from 0), from the beginning or from the
  *                  end; `prev`: of the row that stands `offset` (from 1) before the variable's last one in the partition, which
  *                  may be before the match; `values`: of all rows of the variable, an ARRAY. Where there is no such row it
  *                  is NULL, and the ARRAY is empty
  * @param variable  null: all rows of the match
  */
final case class Navigation(name: String, kind: String, variable: String, column: String, offset: Int)

/** SUBSET: a name for several variables. */
final case class PatternSubset(name: String, variables: JavaList[String])

/** MATCH_RECOGNIZE: rows of a partition that follow each other as a pattern says. The entry point for Python. */
object MatchRecognize {
  private val OfWhole = "final_"

  /** Every match of `pattern`, as one row, or as its rows.
    *
    * The rows of a partition are gone through in the order of time, `orderBy` and arrival, when the watermark has passed
    * them. At every row a match may begin, and each row after it must be taken by the pattern, or there is none. Of a sequence
    * of variables (see [[SequencePattern]]) a match is complete with the first row after which the rest of the pattern may be empty.
    * Of `parts` (see [[StandardPattern]]) it is the preferred one, which is known when those preferred to it have failed.
    * Rows without time match nothing; a row that the watermark had passed when it came is late: it is dropped, and counted by Spark.
    *
    * The result has `time`, still the event time, which is that of the match's last row, or of the row that is shown, and a
    * column for each navigation. After `next_row` a match of a sequence comes out with its last row. Otherwise it waits while one that began before it may still be
    * found, and comes out behind the watermark then: what follows has a watermark that is `withinMs` behind, and without
    * it such a match may be late there.
    *
    * @param time           an event-time column that carries a watermark
    * @param partitionKeys  columns; a NULL in them is a value like others. None: all rows are one partition
    * @param orderBy        columns by which rows of the same time are ordered, with `descending` and `nullsFirst` for each
    * @param pattern        the variables in their order, each once
    * @param parts          the pattern, of those variables; empty: their sequence
    * @param subsets        of those variables
    * @param allRows        whether each row of a match is a row of the result, as the match was when it had taken the row
    * @param skip           where another match may begin after one: `next_row`, after its first row; `past_last_row`; `first`
    *                       or `last`, with the first or the last row of the variable or subset `skipTo`, and as after `next_row` where
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
      parts: JavaList[PatternPart],
      subsets: JavaList[PatternSubset],
      navigations: JavaList[Navigation],
      allRows: Boolean,
      skip: String,
      skipTo: String,
      withinMs: Long,
      stateTtlMs: Long
  ): DataFrame = {
    val (keys, order) = (partitionKeys.asScala.toSeq, orderBy.asScala.toSeq)
    val (variables, navigated) = (pattern.asScala.toSeq, navigations.asScala.toSeq)
    requireTime(df.schema, time)
    requireOrder(df.schema, order, descending.size, nullsFirst.size)
    if (parts.isEmpty) requireSequence(variables)
    val sets = variableSets(variables, subsets.asScala.toSeq)
    requireNavigations(sets.keys.toSeq, navigated, time)
    require(withinMs >= 0, s"expected a time of 0 ms (none) or more for a match, found $withinMs")
    require(stateTtlMs >= 0, s"expected a time to live of 0 ms (off) or more, found $stateTtlMs")

    val row = StructType((navigated.flatMap(each => Option(each.column)) ++ order).distinct.map(df.schema(_)))
    val values = navigated.map(value(_, sets, row))
    val result = StructType(navigated.zip(values).map { case (navigation, value) => StructField(navigation.name, value.result) })
    val directions = descending.asScala.zip(nullsFirst.asScala)
    val conditions = variables.map(condition(df, result, _))
    val form = MatchForm(
      if (parts.isEmpty) SequencePattern(variables)
      else StandardPattern(parts.asScala.toSeq, variables.map(_.name), merges = conditions.zipWithIndex.forall {
        case (null, _)             => true
        case (condition, variable) => MatchProcessor.placesIn(condition).forall(values(_).isOfRow(variable))
      }),
      parseSkip(skip, skipTo, sets),
      row.length,
      RowOrder(order.zip(directions).map { case (name, (down, nulls)) =>
        OrderColumn(row.fieldIndex(name), row(name).dataType, down, nulls)
      }),
      values,
      variables.map(_.name),
      conditions,
      withinMs,
      allRows
    )
    val keyTypes = keys.map(df.schema(_).dataType.json)
    // State of release 0.4.0, which had nothing more than this, is continued.
    val sequence = (keyTypes, rowType(row).json, variables, navigated, skip, skipTo, withinMs)
    val hasMore = !parts.isEmpty || !subsets.isEmpty || allRows
    val rowFormat = if (hasMore) (sequence, parts, subsets, allRows).hashCode else sequence.hashCode
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
      .as[Int, WaitingRow](Encoders.scalaInt, Encoders.product[WaitingRow])
      .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append())(Encoders.product[MatchOutput])
      .toDF()
    val shown = matches.select(timestamp_micros(col("time")).as(time, df.schema(time).metadata) +: columns(col("row"), result): _*)
    // A match that waits comes out so long after its first row at most.
    if ((skip == "next_row" && parts.isEmpty && !allRows) || withinMs == 0) shown else SparkInternals.delayed(shown, withinMs)
  }

  /** The variables that a name stands for: a variable, a subset, or null for all. */
  private def variableSets(variables: Seq[PatternVariable], subsets: Seq[PatternSubset]): Map[String, BitSet] = {
    val names = variables.map(_.name)
    requireDistinct("variables", names ++ subsets.map(_.name))
    val ofSubsets = subsets.map { case PatternSubset(name, members) =>
      members.asScala.foreach(member => require(names.contains(member), s"expected variables in the subset $name, found $member"))
      (name, members.asScala.map(names.indexOf(_)).to(BitSet))
    }
    (names.zipWithIndex.map { case (name, place) => (name, BitSet(place)) } ++ ofSubsets).toMap.updated(null, Run.All)
  }

  private def value(navigation: Navigation, sets: Map[String, BitSet], row: StructType): RunValue = {
    val (variables, offset) = (sets(navigation.variable), navigation.offset)
    val (place, least) = navigation.kind.stripPrefix(OfWhole) match {
      case "first"  => (RowPlace.First(variables, offset), 0)
      case "last"   => (RowPlace.Last(variables, offset), 0)
      case "prev"   => (RowPlace.Before(variables, offset), 1)
      case "values" => (RowPlace.Each(variables), 0)
      case "number" => (RowPlace.Number, 0)
      case other =>
        throw new IllegalArgumentException(s"expected first, last, prev, values or number as a navigation, found $other")
    }
    require(offset >= least, s"expected an offset of $least or more for ${navigation.kind}, found $offset")
    val whole = navigation.kind.startsWith(OfWhole)
    if (place == RowPlace.Number) RunValue(place, RunValue.Classifier, LongType, whole)
    else if (navigation.column == null) RunValue(place, RunValue.Classifier, StringType, whole)
    else RunValue(place, row.fieldIndex(navigation.column), row(navigation.column).dataType, whole)
  }

  private def parseSkip(skip: String, to: String, sets: Map[String, BitSet]): Skip = {
    val expected = s"expected a variable of the pattern with first and last, and with them alone, found $skip and $to"
    require(sets.contains(to) && (to != null) == Set("first", "last").contains(skip), expected)
    skip match {
      case "next_row"      => Skip.NextRow
      case "past_last_row" => Skip.PastLastRow
      case "first"         => Skip.ToVariable(sets(to), last = false)
      case "last"          => Skip.ToVariable(sets(to), last = true)
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

  private def requireSequence(variables: Seq[PatternVariable]): Unit = {
    variables.foreach { case PatternVariable(name, least, most, _, _) =>
      val fits = least >= 0 && (most == -1 || most >= math.max(least, 1))
      require(fits, s"expected a range of repetitions with 0 <= least <= most and most >= 1, found $least to $most for $name")
    }
    val takes = variables.exists(_.least > 0)
    require(takes, s"expected a pattern that takes a row, found ${variables.map(_.name).mkString(" ")}, which may be empty")
  }

  private def requireNavigations(known: Seq[String], navigations: Seq[Navigation], time: String): Unit = {
    requireDistinct("columns", time +: navigations.map(_.name))
    navigations.foreach { case Navigation(name, _, variable, _, _) =>
      require(known.contains(variable), s"expected one of ${known.mkString(", ")} for $name, found $variable")
    }
  }

  private def requireDistinct(what: String, names: Seq[String]): Unit = {
    val twice = names.diff(names.distinct).distinct
    require(twice.isEmpty, s"expected $what of different names, found ${twice.mkString(", ")} more than once")
  }
}
