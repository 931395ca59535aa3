package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.DataType

/** `child`, unchanged; but called nondeterministic, so that the optimizer moves no filter below it.
  *
  * Spark pushes a query's WHERE below the watermark node. A filter that lets few rows of a partition through would then
  * hold the watermark back, although the partition is full of newer rows.
  *
  * @param kept  columns that the node reads beside the event time: named here, or the optimizer would prune them below it
  */
private[spark] final case class FilterBarrier(child: Expression, kept: Seq[Expression] = Nil) extends Expression {
  override def children: Seq[Expression] = child +: kept
  override lazy val deterministic: Boolean = false
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_filter_barrier"
  override def eval(input: InternalRow): Any = child.eval(input)
  override def genCode(ctx: CodegenContext): ExprCode = child.genCode(ctx)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): FilterBarrier =
    copy(newChildren.head, newChildren.tail)
}
