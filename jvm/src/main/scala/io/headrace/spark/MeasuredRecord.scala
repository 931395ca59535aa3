package io.headrace.spark

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.DataType

/** `headrace_measured(value BINARY, key BINARY, 'name')`: `value`, unchanged. Counts the bytes of both under `name`.
  *
  * A record costs an addition in its task, which adds its sum to the counts when it ends.
  */
private[spark] final case class MeasuredRecord(left: Expression, right: Expression, name: String, counts: RowCounts)
    extends BinaryExpression
    with CountsRows {
  // So that the optimizer neither moves it, nor drops or repeats what it counts.
  override lazy val deterministic: Boolean = false
  override def dataType: DataType = left.dataType
  override def nullable: Boolean = left.nullable
  override def nullIntolerant: Boolean = false
  override def prettyName: String = "headrace_measured"
  override protected def stringArgs: Iterator[Any] = Iterator(left, right, name)

  @transient private var task: TaskContext = _
  @transient private var sum: ByteSum = _

  /** Called by generated code, once for each partition of a task. */
  def newSum(): ByteSum = counts.newSum(name)

  override def eval(row: InternalRow): Any = {
    // The tasks of small batches share this object, one after the other.
    if (sum == null || (task ne TaskContext.get())) {
      task = TaskContext.get()
      sum = newSum()
    }
    val value = left.eval(row)
    sum.add(value.asInstanceOf[Array[Byte]])
    sum.add(right.eval(row).asInstanceOf[Array[Byte]])
    value
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("measured", this, classOf[MeasuredRecord].getName)
    val bytes = ctx.addMutableState(classOf[ByteSum].getName, "bytes", name => s"$name = null;", forceInline = true)
    val (value, key) = (left.genCode(ctx), right.genCode(ctx))
    ev.copy(
      code = code"""
                   |${value.code}
                   |${key.code}
                   |if ($bytes == null) $bytes = $self.newSum();
                   |if (!${value.isNull}) $bytes.add(${value.value});
                   |if (!${key.isNull}) $bytes.add(${key.value});
                   |""".stripMargin,
      isNull = value.isNull,
      value = value.value
    )
  }

  override protected def withNewChildrenInternal(value: Expression, key: Expression): MeasuredRecord = copy(left = value, right = key)
}

/** Bytes that a task has seen. */
private[spark] final class ByteSum {
  private var total = 0L

  def add(bytes: Array[Byte]): Unit = if (bytes != null) total += bytes.length

  def value: Long = total
}
