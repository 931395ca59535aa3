package io.headrace.spark

import java.util.{List => JavaList, Locale}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.{EarlyWatermark, SparkInternals}
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types._

import PackedRows._
import PartitionWatermark.named

/** `left JOIN right FOR SYSTEM_TIME AS OF left.time`: the entry point for Python. */
object TemporalJoin {

  /** Every left row with the version of its key that was valid at its event time.
    *
    * That is the right row with the greatest time not after the left row's; a version marked deleted ends the one before
    * it and matches nothing. A left row waits until the watermark has passed it, so that versions may come late within
    * the watermark's delay, and comes out in the order of time among its key's rows. Of what the watermark has passed the
    * last version of each key is kept: a left row that is itself late meets it when it is not after the row, and a late
    * version replaces it when it is not before it. As in Flink, the join itself drops no row.
    *
    * The result has all left columns, with `leftTime` still the event time, and one struct `rightName` with the right
    * columns, NULL without a version. It can be the left side of the next join.
    *
    * @param leftTime, rightTime    event-time columns that carry a watermark. A version without time is no version; a left
    *                               row without time matches nothing
    * @param leftKeys, rightKeys    equally many columns of equal types; a NULL matches nothing
    * @param rightDeleted           a BOOLEAN column of the right side that marks a deletion; null when it has none
    * @param how                    `inner` or `left`
    * @param stateTtlMs             for how long, in event time, a version is valid at most; 0: until the next one
    *
    * Throws IllegalArgumentException for columns that cannot be joined so.
    */
  def join(
      left: DataFrame,
      right: DataFrame,
      leftKeys: JavaList[String],
      rightKeys: JavaList[String],
      leftTime: String,
      rightTime: String,
      rightName: String,
      rightDeleted: String,
      how: String,
      stateTtlMs: Long
  ): DataFrame = {
    val inner = isInner(how)
    val (keys, versionKeys) = (leftKeys.asScala.toSeq, rightKeys.asScala.toSeq)
    requireKeys(left.schema, right.schema, keys, versionKeys)
    requireTime(left.schema, leftTime, "left")
    requireTime(right.schema, rightTime, "right")
    require(stateTtlMs >= 0, s"expected a time to live of 0 ms (off) or more, found $stateTtlMs")
    require(!left.columns.contains(rightName), s"expected a name that no left column has for the right side, found $rightName")

    val (leftRow, rightRow) = (rowType(left.schema), rowType(right.schema))
    val processor = new TemporalJoinProcessor(inner, stateTtlMs, rowFormat = (leftRow.json, rightRow.json).hashCode)
    val joined = leftRows(left, keys, leftTime, inner)
      .union(rightRows(right, versionKeys, rightTime, Option(rightDeleted)))
      .groupBy(col("group"))
      .as[Int, JoinInput](Encoders.scalaInt, Encoders.product[JoinInput])
      .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append())(Encoders.product[JoinOutput])
      .toDF()
    joined.select(columns(col("left"), left.schema) :+ unpacked(col("right"), rightRow).as(rightName): _*)
  }

  private def leftRows(left: DataFrame, keys: Seq[String], time: String, inner: Boolean): DataFrame = {
    val matchable = (keys :+ time).map(name => named(name).isNotNull).reduce(_ && _)
    val payload = packed(left.columns.map(named).toSeq)
    val key = packedKey(left, keys)
    (if (inner) left.where(matchable) else left).select(
      // Rows that match nothing are spread over the groups.
      KeyGroups.group(when(matchable, key).otherwise(payload)).as("group"),
      lit(TemporalJoinProcessor.Row).as("kind"),
      coalesce(unix_micros(named(time)), lit(EarlyWatermark.NoneMs * 1000)).as("time"),
      when(matchable, key).as("key"),
      payload.as("payload")
    )
  }

  private def rightRows(right: DataFrame, keys: Seq[String], time: String, deleted: Option[String]): DataFrame = {
    val payload = packed(right.columns.map(named).toSeq)
    val live = deleted.fold(payload)(flag => when(coalesce(named(flag), lit(false)), lit(null)).otherwise(payload))
    val key = packedKey(right, keys)
    right
      .where((keys :+ time).map(name => named(name).isNotNull).reduce(_ && _))
      .select(
        KeyGroups.group(key).as("group"),
        lit(TemporalJoinProcessor.Version).as("kind"),
        unix_micros(named(time)).as("time"),
        key.as("key"),
        live.as("payload")
      )
  }

  private def isInner(how: String): Boolean = how.toLowerCase(Locale.ROOT) match {
    case "inner" => true
    case "left"  => false
    case other   => throw new IllegalArgumentException(s"expected inner or left for a temporal join, found $other")
  }

  private def requireKeys(left: StructType, right: StructType, keys: Seq[String], versionKeys: Seq[String]): Unit = {
    require(
      keys.nonEmpty && keys.size == versionKeys.size,
      s"expected equally many keys on both sides of a temporal join, found ${keys.size} and ${versionKeys.size}"
    )
    keys.zip(versionKeys).foreach { case (ours, theirs) =>
      val (leftType, rightType) = (left(ours).dataType, right(theirs).dataType)
      require(
        leftType == rightType,
        s"expected keys of one type, found $ours ${leftType.sql} and $theirs ${rightType.sql}: cast one of them"
      )
    }
  }

  private def requireTime(schema: StructType, time: String, side: String): Unit = {
    val field = schema(time)
    require(
      field.dataType == TimestampType && field.metadata.contains(SparkInternals.DelayKey),
      s"expected a TIMESTAMP with a watermark as the time of the $side side, found $time ${field.dataType.sql}" +
        (if (field.dataType == TimestampType) " without one" else "")
    )
  }
}
