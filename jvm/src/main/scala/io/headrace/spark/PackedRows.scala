package io.headrace.spark

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.types._

import PartitionWatermark.quoted

/** Rows and keys as bytes on their way through an operator, and as columns again after it. */
private[spark] object PackedRows {

  def packed(columns: Seq[Column]): Column =
    SparkInternals.column(PackRow(columns.map(SparkInternals.expression)))

  def unpacked(column: Column, row: StructType): Column =
    SparkInternals.column(UnpackRow(SparkInternals.expression(column), row))

  /** The columns `names` of `df` as the bytes that an operator is called by. Keys that are equal have equal bytes: a
    * NULL is a key like others, -0.0 equals 0.0, and NaN equals NaN. No columns: one key for all rows.
    */
  def packedKey(df: DataFrame, names: Seq[String]): Column =
    if (names.isEmpty) lit(Array.emptyByteArray) else packed(names.map(keyColumn(df, _)))

  /** Throws IllegalArgumentException for a column that cannot be compared. */
  def keyColumn(df: DataFrame, name: String): Column = {
    val kind = df.schema(name).dataType
    require(!SparkInternals.hasMap(kind), s"expected a key that can be compared, found $name ${kind.sql}")
    SparkInternals.normalized(df, quoted(name))
  }

  /** The columns that `packed` took, with names and metadata, the watermark's among it. */
  def columns(packed: Column, schema: StructType): Seq[Column] = {
    val row = unpacked(packed, rowType(schema))
    schema.fields.toSeq.map(field => row.getField(field.name).as(field.name, field.metadata))
  }

  /** The types alone: names in the query, comments and watermarks do not change what the bytes of a row mean. */
  def rowType(schema: StructType): StructType =
    StructType(schema.fields.map(field => StructField(field.name, field.dataType, nullable = true)))

  /** The columns of a row but `left`, in their order; a null name stands for no column. */
  def without(schema: StructType, left: String*): StructType =
    StructType(schema.fields.filterNot(field => left.contains(field.name)))
}
