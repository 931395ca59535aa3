package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.DataType

/** Its input, unchanged; but called nondeterministic, so that the optimizer moves no filter below it.
  *
  * Spark pushes a query's WHERE below the watermark node. A filter that lets few rows of a partition through would then
  * hold the watermark back, although the partition is full of newer rows.
  */
private[spark] final case class FilterBarrier(child: Expression) extends UnaryExpression {
  override lazy val deterministic: Boolean = false
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_filter_barrier"
  override def eval(input: InternalRow): Any = child.eval(input)
  override def genCode(ctx: CodegenContext): ExprCode = child.genCode(ctx)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)
  override protected def withNewChildInternal(newChild: Expression): FilterBarrier = copy(child = newChild)
}
