package io.headrace.spark

import java.util.{List => JavaList, Locale}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Column, DataFrame, Encoders}
import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types._

import PackedRows._
import PartitionWatermark.named

/** Joins of two relations that are followed through their changes: the entry point for Python. */
object ChangelogJoin {

  /** The join of two relations, as changes of it.
    *
    * Both sides are multisets, given by their changes: a row is added, or one that is the same in all columns is taken
    * away. Changes may come in any order and cut anyhow; the sum of what comes out is the join of the sums of what came in.
    *
    * The result has the columns of `left` without `leftOp` and without keys of [[InternalColumns]], then, but for
    * `semi` and `anti`, those of `right` likewise. Of two columns `rowtime` one remains, with the later of both times.
    * Last comes `op`, 1 for a row that is added and -1 for one that is taken away; it is left out when nothing can be
    * taken away because the join is inner and neither side has an `…Op`. In outer joins the columns of a missing row are
    * NULL.
    *
    * @param leftKeys, rightKeys      equally many columns of equal types, maybe none; a NULL matches nothing
    * @param leftOp, rightOp          a TINYINT column that is 1, -1 or, of a row that is still there, 0; null when rows are
    *                                 only added
    * @param condition                BOOLEAN SQL over the columns of both sides that matching rows meet too; null: none
    * @param how                      `inner`, `left`, `right`, `full`, `semi` or `anti`
    * @param leftCloses, rightCloses  a TIMESTAMP column: the row leaves the state when the watermark reaches it, and if it
    *                                 is to come out because it has met no row, it does so then and not before. A row that
    *                                 comes after that is dropped. null: rows stay
    * @param ttl                      a key that was not touched for so long is forgotten; with `repeats`, one that was touched
    *                                 gives its rows again, signed with 0, if they can be taken away
    *
    * Throws IllegalArgumentException for columns that cannot be joined so.
    */
  def join(
      left: DataFrame,
      right: DataFrame,
      leftKeys: JavaList[String],
      rightKeys: JavaList[String],
      leftOp: String,
      rightOp: String,
      condition: String,
      how: String,
      leftCloses: String,
      rightCloses: String,
      ttl: TimeToLive
  ): DataFrame = {
    val leftSide = Side(left, leftKeys.asScala.toSeq, Option(leftOp), Option(leftCloses).map(Closing.at), right = false)
    val rightSide = Side(right, rightKeys.asScala.toSeq, Option(rightOp), Option(rightCloses).map(Closing.at), right = true)
    joined(leftSide, rightSide, condition, how, apart = null, ttl)
  }

  private[spark] def joined(
      left: Side,
      right: Side,
      condition: String,
      how: String,
      apart: Apart,
      ttl: TimeToLive
  ): DataFrame = {
    val internal = InternalColumns.of(left.df)
    val kind = JoinKind.parse(how)
    requireDisjoint(left.df, right.df)
    requireKeys(left, right)

    val both = joinable(left.df, right.df)
    val bound = Option(condition).map(SparkInternals.condition(left.df.sparkSession, both, _))
    val read = bound.toSeq.flatMap(_.collect { case column: BoundReference => both(column.ordinal).name }).toSet
    val leftRow = left.row(shown = true, read)
    val rightRow = right.row(shown = kind.pairs, read)
    val compiled = bound.map { expression =>
      val places = (leftRow.fieldNames ++ rightRow.fieldNames).zipWithIndex.reverse.toMap
      val moved = expression.transform { case column: BoundReference =>
        column.copy(ordinal = places(both(column.ordinal).name), nullable = true)
      }
      new JoinCondition(moved, leftRow, rightRow)
    }
    val closes = (left.closing.isDefined, right.closing.isDefined)
    val timed = closes._1 || closes._2
    val keyTypes = left.keys.map(left.df.schema(_).dataType.json)
    val rows = (rowType(leftRow).json, rowType(rightRow).json)
    val format = (keyTypes, rows, kind, condition, closes, apart, ttl.isOn).hashCode
    val insertsOnly = left.op.isEmpty && right.op.isEmpty && (how.toLowerCase(Locale.ROOT) == "inner" || apart != null)
    // What is never taken away depends on no row here; what closes is final.
    val repeats = ttl.repeats && !insertsOnly && !timed
    val processor = new ChangelogJoinProcessor(kind, compiled.orNull, closes, apart, ttl.copy(repeats = repeats), format)
    val changes = left
      .changes(leftRow, keepUnmatchable = kind.left == Alone.Unmatched, timed)
      .union(right.changes(rightRow, keepUnmatchable = kind.right == Alone.Unmatched, timed))
      .groupBy(col("group"))
      .as[Int, ChangelogInput](Encoders.scalaInt, Encoders.product[ChangelogInput])
      .transformWithState(processor, processor.timeMode, OutputMode.Append())(Encoders.product[ChangelogOutput])
      .toDF()
    val shown = left.shown(col("left"), leftRow) ++ (if (kind.pairs) right.shown(col("right"), rightRow) else Nil)
    changes.select(withOneRowtime(shown, internal.rowtime) ++ Option.when(!insertsOnly)(col("op").as(internal.op)): _*)
  }

  /** Time at which the rows of a side leave the state.
    *
    * @param micros  in epoch microseconds; a row for which it is NULL matches nothing
    * @param late    a TIMESTAMP: Spark drops the row, and counts it as late, when the watermark had reached it before
    */
  private[spark] final case class Closing(micros: Column, late: Column)

  private[spark] object Closing {
    def at(column: String): Closing = Closing(unix_micros(named(column)), named(column))
  }

  private[spark] final case class Side(
      df: DataFrame,
      keys: Seq[String],
      op: Option[String],
      closing: Option[Closing],
      right: Boolean
  ) {
    private val hidden = keys.filter(InternalColumns.of(df).contain) ++ op

    /** The columns that are carried: those that come out, and those that the condition reads. */
    def row(shown: Boolean, read: Set[String]): StructType =
      StructType(df.schema.fields.filter(field => read(field.name) || shown && !hidden.contains(field.name)))

    def shown(packed: Column, row: StructType): Seq[(StructField, Column)] =
      row.fields.toSeq.zip(columns(packed, row)).filter { case (field, _) => !hidden.contains(field.name) }

    /** @param timed  whether rows of either side close */
    def changes(row: StructType, keepUnmatchable: Boolean, timed: Boolean): DataFrame = {
      val matchable = (keys.map(named) ++ closing.map(_.micros)).map(_.isNotNull).reduceOption(_ && _).getOrElse(lit(true))
      val payload = if (row.isEmpty) lit(Array.emptyByteArray) else packed(row.fieldNames.map(named).toSeq)
      val key = packedKey(df, keys)
      val columns = Seq(
        // Rows that match nothing are spread over the groups.
        KeyGroups.group(when(matchable, key).otherwise(payload)).as("group"),
        lit(right).as("right"),
        op.fold(lit(1))(named).cast(ByteType).as("op"),
        closing.fold(lit(Long.MaxValue))(it => coalesce(it.micros, lit(Long.MaxValue))).as("closesMicros"),
        when(matchable, key).as("key"),
        payload.as("payload")
      )
      // Spark knows an event time by its column's metadata.
      val eventTime = new MetadataBuilder().putLong(SparkInternals.DelayKey, 0).build()
      val late = closing.fold(lit(null).cast(TimestampType))(_.late).as("late", eventTime)
      (if (keepUnmatchable) df else df.where(matchable)).select(columns ++ Option.when(timed)(late): _*)
    }
  }

  /** Columns that a condition can name. */
  private def joinable(left: DataFrame, right: DataFrame): StructType =
    StructType(left.schema.fields ++ right.schema.fields.filterNot(field => left.columns.contains(field.name)))

  private def withOneRowtime(shown: Seq[(StructField, Column)], rowtime: String): Seq[Column] =
    shown.filter(_._1.name == rowtime) match {
      case Seq((field, left), (_, right)) =>
        val later = greatest(left, right).as(rowtime, field.metadata)
        val first = shown.indexWhere(_._1.name == rowtime)
        shown.map(_._2).updated(first, later).patch(shown.lastIndexWhere(_._1.name == rowtime), Nil, 1)
      case _ => shown.map(_._2)
    }

  private def requireDisjoint(left: DataFrame, right: DataFrame): Unit = {
    val both = left.columns.intersect(right.columns).filterNot(_ == InternalColumns.of(left).rowtime)
    require(both.isEmpty, s"expected columns of different names on both sides of a join, found ${both.mkString(", ")} on both")
  }

  private def requireKeys(left: Side, right: Side): Unit = {
    require(
      left.keys.size == right.keys.size,
      s"expected equally many keys on both sides of a join, found ${left.keys.size} and ${right.keys.size}"
    )
    left.keys.zip(right.keys).foreach { case (ours, theirs) =>
      val (leftType, rightType) = (left.df.schema(ours).dataType, right.df.schema(theirs).dataType)
      require(
        leftType == rightType,
        s"expected keys of one type, found $ours ${leftType.sql} and $theirs ${rightType.sql}: cast one of them"
      )
    }
  }
}
