package io.headrace.spark

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType

/** Condition of a left and a right row as generated code.
  *
  * @param bound  a BOOLEAN over the columns of `left` and then those of `right`, by place
  */
private[spark] final class JoinCondition(bound: Expression, left: StructType, right: StructType)
    extends ((Array[Byte], Array[Byte]) => Boolean)
    with Serializable {

  @transient private lazy val predicate = Predicate.create(bound)
  @transient private lazy val leftRow = new UnsafeRow(left.length)
  @transient private lazy val rightRow = new UnsafeRow(right.length)
  @transient private lazy val pair = new JoinedRow(leftRow, rightRow)

  override def apply(left: Array[Byte], right: Array[Byte]): Boolean = {
    leftRow.pointTo(left, left.length)
    rightRow.pointTo(right, right.length)
    predicate.eval(pair)
  }
}
