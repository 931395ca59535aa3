package io.headrace.spark

import org.apache.spark.sql.Column
import org.apache.spark.sql.functions._

/** Packs a partition and an event time into the one TIMESTAMP that a watermark column may be.
  *
  * The low 48 bits hold the milliseconds since the year 0 and the 15 above them the partition, so that times before
  * 1970 order correctly. Event times outside the years 0 to 8919 are clamped to that range: they can only come from
  * corrupt data, and must not leak into the bits of the partition.
  */
private[spark] object EventTimeCode {
  val PartitionLimit: Int = Short.MaxValue.toInt

  private val TimeBits = 48
  private val TimeMask = (1L << TimeBits) - 1

  /** Milliseconds from the year 0 (proleptic Gregorian) to 1970. */
  private val Bias = 62167219200000L

  val MinMs: Long = -Bias
  val MaxMs: Long = TimeMask - Bias

  /** The code of a row that says nothing about time although it has one. Codes of times are never negative. */
  val Silent: Column = timestamp_micros(lit(-1L))

  def isSilent(code: Long): Boolean = code < 0

  def encode(partition: Int, ms: Long): Long = (partition.toLong << TimeBits) | (clamp(ms) + Bias)

  def partition(code: Long): Int = (code >>> TimeBits).toInt

  def ms(code: Long): Long = (code & TimeMask) - Bias

  def clamp(ms: Long): Long = math.max(MinMs, math.min(MaxMs, ms))

  /** The same encoding as an expression over `eventTime` (TIMESTAMP), `entity` (STRING) and `partition` (INT).
    *
    * It is NULL for a NULL event time, and fails the query for a partition that has no code. A source of one entity needs no
    * look at the entity of every row; `many` is the name of the [[ManyEntities]] of another.
    */
  def column(eventTime: Column, entity: Column, partition: Column, many: Option[String]): Column = {
    val ms = greatest(lit(MinMs), least(lit(MaxMs), unix_millis(eventTime))) + lit(Bias)
    val number = many.fold(partition)(name => udf[Int, String, Int](new PartitionCode(name)).apply(entity, partition)).cast("long")
    val code = when(number.between(0L, PartitionLimit - 1L), number * lit(1L << TimeBits) + ms)
      .otherwise(
        raise_error(
          concat(
            lit(s"expected partitions from 0 to ${PartitionLimit - 1} for the watermark, found "),
            coalesce(partition.cast("string"), lit("NULL"))
          )
        ).cast("long")
      )
    when(eventTime.isNull, lit(null).cast("timestamp")).otherwise(timestamp_micros(code))
  }
}
