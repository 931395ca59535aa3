package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.trees.BinaryLike
import org.apache.spark.sql.catalyst.util.{GenericArrayData, TypeUtils}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.aggregate.AggUtils
import org.apache.spark.sql.functions.{col, inline}
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import PartitionWatermark.named

/** `headrace_rows_of_max(value, row STRUCT)`, `headrace_rows_of_min`: an array of the rows of a group whose value is the greatest, or the
  * least, by Spark's order of the type. A NULL value is neither.
  */
private[spark] final case class RowsOfExtreme(
    value: Expression,
    row: Expression,
    greatest: Boolean,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[ExtremeRows]
    with BinaryLike[Expression] {

  override def left: Expression = value
  override def right: Expression = row
  override def dataType: DataType = ArrayType(row.dataType, containsNull = false)
  override def nullable: Boolean = false
  override def prettyName: String = if (greatest) "headrace_rows_of_max" else "headrace_rows_of_min"

  @transient private lazy val order = TypeUtils.getInterpretedOrdering(value.dataType)
  @transient private lazy val packValue = UnsafeProjection.create(Array(value.dataType))
  @transient private lazy val packRow = UnsafeProjection.create(row.dataType.asInstanceOf[StructType])
  private lazy val columns = row.dataType.asInstanceOf[StructType].length

  override def createAggregationBuffer(): ExtremeRows = new ExtremeRows

  override def update(buffer: ExtremeRows, input: InternalRow): ExtremeRows = {
    val candidate = value.eval(input)
    if (candidate != null) {
      val difference = compare(candidate, buffer)
      if (difference > 0) buffer.restart(InternalRow.copyValue(candidate))
      // Most rows are below the extreme so far, and are not packed.
      if (difference >= 0) buffer.rows += packRow(row.eval(input).asInstanceOf[InternalRow]).copy().getBytes
    }
    buffer
  }

  override def merge(buffer: ExtremeRows, other: ExtremeRows): ExtremeRows = {
    if (other.value != null) {
      val difference = compare(other.value, buffer)
      if (difference > 0) buffer.restart(other.value)
      if (difference >= 0) buffer.rows ++= other.rows
    }
    buffer
  }

  /** Positive if `candidate` is more extreme than all rows so far, 0 if as extreme. */
  private def compare(candidate: Any, buffer: ExtremeRows): Int =
    if (buffer.value == null) 1
    else if (greatest) order.compare(candidate, buffer.value)
    else order.compare(buffer.value, candidate)

  override def eval(buffer: ExtremeRows): Any = new GenericArrayData(buffer.rows.map(unpacked(_, columns): Any).toArray)

  override def serialize(buffer: ExtremeRows): Array[Byte] =
    if (buffer.value == null) Array.emptyByteArray
    else {
      val parts = packValue(InternalRow(buffer.value)).copy().getBytes +: buffer.rows
      val out = ByteBuffer.allocate(Math.toIntExact(parts.map(_.length + 4L).sum))
      parts.foreach(part => out.putInt(part.length).put(part))
      out.array()
    }

  override def deserialize(bytes: Array[Byte]): ExtremeRows = {
    val buffer = new ExtremeRows
    val in = ByteBuffer.wrap(bytes)
    def next(): Array[Byte] = {
      val part = new Array[Byte](in.getInt())
      in.get(part)
      part
    }
    if (in.hasRemaining) buffer.restart(unpacked(next(), 1).get(0, value.dataType))
    while (in.hasRemaining) buffer.rows += next()
    buffer
  }

  private def unpacked(bytes: Array[Byte], columns: Int): UnsafeRow = {
    val row = new UnsafeRow(columns)
    row.pointTo(bytes, bytes.length)
    row
  }

  override def withNewMutableAggBufferOffset(offset: Int): RowsOfExtreme = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): RowsOfExtreme = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): RowsOfExtreme =
    copy(value = newLeft, row = newRight)
}

/** The extreme value so far, null before the first one, and the packed rows that have it. */
private[spark] final class ExtremeRows {
  var value: Any = _
  val rows = new ArrayBuffer[Array[Byte]](1)

  def restart(extreme: Any): Unit = {
    value = extreme
    rows.clear()
  }
}

/** Rows with the extreme of their group, where all rows of a group come in the same batch: no state. */
private[spark] final case class ExtremesOfBatch(
    group: Attribute,
    value: Expression,
    row: Expression,
    greatest: Boolean,
    rows: Attribute,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = Seq(group, rows)
  override lazy val producedAttributes: AttributeSet = AttributeSet(rows)
  override protected def withNewChildInternal(newChild: LogicalPlan): ExtremesOfBatch = copy(child = newChild)
}

/** Plans [[ExtremesOfBatch]] as an aggregate of a batch, which Spark has no name for in a streaming query. */
private[spark] object ExtremesOfBatchStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: ExtremesOfBatch =>
      val kept = RowsOfExtreme(node.value, node.row, node.greatest).toAggregateExpression()
      val results = Seq(node.group, Alias(kept.resultAttribute, node.rows.name)(exprId = node.rows.exprId))
      AggUtils.planAggregateWithoutDistinct(Seq(node.group), Seq(kept), results, planLater(node.child))
    case _ => Nil
  }
}

/** The rows with the MAX or MIN of their window: the entry point for Python. */
object WindowExtremes {

  /** The rows of `df` whose `value` is the greatest (`max`) or the least (`min`) of their `window`, without the column `value`.
    *
    * All rows of a window come in one batch, as groups of windows do when their window is closed. A NULL is no value.
    */
  def rows(df: DataFrame, function: String, value: String, window: String): DataFrame = {
    require(Set("max", "min").contains(function), s"expected max or min, found $function")
    def column(name: String): Attribute = SparkInternals.attribute(df, name)
    val kept = CreateStruct(df.columns.toSeq.filterNot(Set(value, window)).map(column))
    val array = AttributeReference("kept", ArrayType(kept.dataType, containsNull = false), nullable = false)()
    val node = ExtremesOfBatch(column(window), column(value), kept, function == "max", array, _)
    SparkInternals.over(df, node).select(inline(col("kept")), named(window))
  }
}
