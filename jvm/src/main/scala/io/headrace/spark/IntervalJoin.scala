package io.headrace.spark

import java.util.{List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.types.TimestampType

import ChangelogJoin.{Closing, Side}
import PartitionWatermark.named

/** Joins of two streams whose event times are close: the entry point for Python. */
object IntervalJoin {

  /** The pairs of rows with equal keys whose event times, right less left, are from `lowerMs` to `upperMs`.
    *
    * A pair comes out as soon as both rows are there; a row of an outer join that has met none comes out once, when the
    * watermark rules a partner out, with the other side's columns NULL. A row that the watermark had passed when it came is
    * late: it is dropped, and counted by Spark.
    *
    * The result has the columns of both sides, without keys of [[InternalColumns]]; its `rowtime`, the event time on both
    * sides, is the later one of a pair. Its watermark waits for the rows that may still come out alone.
    *
    * @param leftKeys, rightKeys  equally many columns of equal types; a NULL, like an event time that is, matches nothing
    * @param condition            BOOLEAN SQL over the columns of both sides that matching rows meet too; null: none
    * @param how                  `inner`, `left`, `right` or `full`
    *
    * Throws IllegalArgumentException for columns that cannot be joined so.
    */
  def join(
      left: DataFrame,
      right: DataFrame,
      leftKeys: JavaList[String],
      rightKeys: JavaList[String],
      lowerMs: Long,
      upperMs: Long,
      condition: String,
      how: String
  ): DataFrame = {
    require(lowerMs <= upperMs, s"expected a lower bound that is not above the upper one, found $lowerMs ms and $upperMs ms")
    val kind = JoinKind.parse(how)
    require(kind.pairs, s"expected inner, left, right or full for an interval join, found $how")
    val rowtime = InternalColumns.of(left).rowtime
    requireTime(left, rowtime, "left")
    requireTime(right, rowtime, "right")
    // For so long after its own time a row may meet one that is not late.
    val (leftMs, rightMs) = (math.max(upperMs, 0L), math.max(-lowerMs, 0L))
    val apart = Apart((lowerMs + rightMs - leftMs) * 1000, (upperMs + rightMs - leftMs) * 1000)
    val delayMs = math.max(if (kind.left == Alone.Unmatched) leftMs else 0, if (kind.right == Alone.Unmatched) rightMs else 0)
    val joined = ChangelogJoin.joined(
      Side(left, leftKeys.asScala.toSeq, None, Some(after(rowtime, leftMs)), right = false),
      Side(right, rightKeys.asScala.toSeq, None, Some(after(rowtime, rightMs)), right = true),
      condition,
      how,
      apart,
      TimeToLive.Forever
    )
    if (delayMs == 0) joined else SparkInternals.delayed(joined, delayMs)
  }

  private def after(rowtime: String, ms: Long): Closing =
    Closing(unix_micros(named(rowtime)) + lit(ms * 1000), named(rowtime))

  private def requireTime(df: DataFrame, rowtime: String, side: String): Unit = require(
    df.schema.exists(field => field.name == rowtime && field.dataType == TimestampType && field.metadata.contains(SparkInternals.DelayKey)),
    s"expected a TIMESTAMP $rowtime with a watermark on the $side side of an interval join"
  )
}
