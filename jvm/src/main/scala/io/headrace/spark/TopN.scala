package io.headrace.spark

import java.util.{List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types._

import PackedRows._
import PartitionWatermark.named

/** The first rows of each partition, such as ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= limit: the entry point for Python. */
object TopN {

  /** The first `limit` rows of each partition, whenever they change. Of rows that are equal in order, the one that came
    * first goes first, or with `newestFirst` the one that came last. With a limit of 1 it removes duplicates.
    *
    * Where no row is ever taken away, only the first rows are kept; otherwise all are, the first ones at hand.
    *
    * @param function       `row_number`; `rank` or `dense_rank`, by which rows that are equal in order have the same rank
    * @param partitionKeys  columns; a NULL in them is a value like others
    * @param orderBy        columns, with `descending` and `nullsFirst` for each of them
    * @param op             the column that says whether a row is added, 1, or taken away, -1, or still there, 0; null: all
    *                       are added
    * @param output         `upsert`: the rows by partition and rank, or with a limit of 1 by partition, ends marked by
    *                       `deleted`; `signed`: rows that join the first ones and leave them, or with a rank change it,
    *                       marked by `op`; `insert`: each partition once, when the watermark has reached `closes`
    * @param rankColumn     the name of a BIGINT with the row's rank; null: none
    * @param closes         with `insert`: a TIMESTAMP that is the same for all rows of a partition, such as the end of their
    *                       window. Rows that come after it are late and dropped. Else null
    * @param stateTtl       a partition that was not touched for so long is forgotten; with `repeats`, one that was touched
    *                       gives the rows that it did not change again, signed with 0. One that closes is freed then
    *
    * Returns all columns but `op`, `rankColumn`, and `deleted` or `op` of [[InternalColumns]]. Throws IllegalArgumentException for arguments
    * that do not fit together.
    */
  def rank(
      df: DataFrame,
      function: String,
      partitionKeys: JavaList[String],
      orderBy: JavaList[String],
      descending: JavaList[java.lang.Boolean],
      nullsFirst: JavaList[java.lang.Boolean],
      limit: Int,
      op: String,
      output: String,
      rankColumn: String,
      closes: String,
      stateTtl: TimeToLive,
      newestFirst: Boolean
  ): DataFrame = {
    val ranks = RankFunction.named(function)
    requireOutput(output, ranks, limit, rankColumn, closes)
    val schema = without(df.schema, op)
    val keys = partitionKeys.asScala.toSeq
    val order = RowOrder(orderBy.asScala.zip(descending.asScala).zip(nullsFirst.asScala).toSeq.map { case ((name, down), nulls) =>
      val at = schema.fieldIndex(name)
      OrderColumn(at, schema(at).dataType, down, nulls)
    })
    require(order.columns.size == orderBy.size, s"expected a direction for each of the ${orderBy.size} columns of the order")
    val form = TopNForm(ranks, order, schema.length, limit, op == null, output == "signed", ranked = rankColumn != null, newestFirst)
    val ttl = if (closes == null) stateTtl else TimeToLive.Forever
    val format = (keys, rowType(schema).json, order, op == null, closes == null, if (op == null) limit else 0)
    val state = new KeyState("Top-N", 1, if (ranks.hasTies) (format, function).hashCode else format.hashCode, ttl)
    val processor = if (closes == null) new TopNProcessor(state, ttl, form) else new ClosingTopNProcessor(state, form)
    val time = if (closes == null) lit(0L) else unix_micros(named(closes))
    // Spark drops the rows of a column with this mark that the watermark had passed before the batch.
    val mark = new MetadataBuilder().putLong(SparkInternals.DelayKey, 0).build()
    val rows = df.select(
      Seq(
        packedKey(df, keys).as("key"),
        (if (op == null) lit(1.toByte) else named(op).cast(ByteType)).as("op"),
        time.as("closes"),
        packed(schema.fieldNames.map(named).toSeq).as("row")
      ) ++ Option(closes).map(named(_).as("late", mark)): _*
    )
    val ranked = (if (closes == null) rows else rows.where(col("closes").isNotNull))
      .groupBy(col("key"))
      .as[Array[Byte], RankInput](Encoders.BINARY, Encoders.product[RankInput])
      .transformWithState(processor, if (closes == null) KeyedOperator.timeMode(ttl) else TimeMode.EventTime(), OutputMode.Append())(
        Encoders.product[RankOutput]
      )
      .toDF()
    val change = output match {
      case "signed" => Some(col("op").as(InternalColumns.of(df).op))
      case "upsert" => Some((col("op") === lit(-1)).as(InternalColumns.of(df).deleted))
      case _        => None
    }
    ranked.select(columns(col("row"), schema) ++ Option(rankColumn).map(col("rank").as(_)) ++ change: _*)
  }

  private def requireOutput(output: String, function: RankFunction, limit: Int, rankColumn: String, closes: String): Unit = {
    require(limit > 0, s"expected a limit of 1 or more, found $limit")
    require(Set("upsert", "signed", "insert").contains(output), s"expected upsert, signed or insert as the output, found $output")
    require((output == "insert") == (closes != null), s"expected a time that closes a partition with insert, and with it alone, found $output")
    require(output != "upsert" || !function.hasTies, "expected row_number with upserts: rows of one rank have no key")
    require(
      output != "upsert" || limit == 1 || rankColumn != null,
      s"expected a rank with the upserts of a limit of $limit: it is part of their key"
    )
  }
}

private[spark] final case class OrderColumn(at: Int, kind: DataType, descending: Boolean, nullsFirst: Boolean)

/** The order of rows, by Spark's own comparison. */
private[spark] final case class RowOrder(columns: Seq[OrderColumn]) {
  def ordering: BaseOrdering = RowOrdering.create(
    columns.map { column =>
      val direction = if (column.descending) Descending else Ascending
      val nulls = if (column.nullsFirst) NullsFirst else NullsLast
      SortOrder(BoundReference(column.at, column.kind, nullable = true), direction, nulls, Seq.empty)
    },
    Seq.empty
  )
}
