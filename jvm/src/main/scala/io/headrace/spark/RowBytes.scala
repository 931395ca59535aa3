package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{BinaryType, DataType, StructType}

/** The columns `children` as one BINARY: the bytes of Spark's own row format, which its state stores keep as well.
  *
  * Operators that only carry rows around take them so, and are spared turning every column into a JVM object and back.
  * Two rows of the same types have the same bytes exactly when their values are the same.
  */
private[spark] final case class PackRow(children: Seq[Expression]) extends Expression with CodegenSupportOnly {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = false
  override def prettyName: String = "headrace_pack_row"

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val row = GenerateUnsafeProjection.createCode(ctx, children)
    // A copy, since the projection writes its next row into the same buffer.
    ExprCode(
      code"""
            |${row.code}
            |final byte[] ${ev.value} = ${row.value}.copy().getBytes();
            |""".stripMargin,
      FalseLiteral,
      ev.value
    )
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): PackRow = copy(newChildren)
}

/** The struct that [[PackRow]] made `child` from; NULL for NULL. The row is read where it lies: nothing is copied. */
private[spark] final case class UnpackRow(child: Expression, dataType: StructType)
    extends UnaryExpression
    with CodegenSupportOnly {
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_unpack_row"

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    nullSafeCodeGen(
      ctx,
      ev,
      bytes => {
        val row = ctx.freshName("row")
        val unsafeRow = classOf[UnsafeRow].getName
        s"""
           |$unsafeRow $row = new $unsafeRow(${dataType.length});
           |$row.pointTo($bytes, $bytes.length);
           |${ev.value} = $row;
         """.stripMargin
      }
    )

  override protected def withNewChildInternal(newChild: Expression): UnpackRow = copy(child = newChild)
}

/** Evaluates one row at a time by the generated code, where Spark does not generate code for the whole stage. */
private[spark] sealed trait CodegenSupportOnly { self: Expression =>
  @transient private lazy val projection: UnsafeProjection =
    UnsafeProjection.create(Seq(this), Seq.empty[Attribute])

  override def eval(input: InternalRow): Any = {
    val row = projection(input)
    if (row.isNullAt(0)) null else row.get(0, dataType)
  }
}
