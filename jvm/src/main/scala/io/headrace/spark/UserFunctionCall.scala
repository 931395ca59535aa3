package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.headrace.ArrowCaller
import org.apache.spark.sql.types.DataType

/** `headrace_call('id', argument, …)`: a call of a function of a user.
  *
  * `TakeCallsOut` replaces it by a column that is computed in batches. Where that is not possible it is evaluated row by row, each a round
  * trip to the worker.
  */
final case class UserFunctionCall(function: FunctionLaunch, arguments: Seq[Expression])(override val counts: RowCounts)
    extends Expression
    with CodegenFallback
    with CountsRows {
  override def children: Seq[Expression] = arguments
  override lazy val dataType: DataType = CatalystSqlParser.parseDataType(function.result)
  override def nullable: Boolean = true
  // It is not to be evaluated when a query is planned.
  override def foldable: Boolean = false
  override def prettyName: String = "headrace_call"
  override protected def stringArgs: Iterator[Any] = Iterator(function.signature) ++ arguments
  override protected def otherCopyArgs: Seq[AnyRef] = counts :: Nil

  @transient private lazy val caller = new ArrowCaller(this)

  override def eval(input: InternalRow): Any =
    caller(Iterator.single(new GenericInternalRow(arguments.map(_.eval(input)).toArray[Any]))).head

  /** The answer of a worker; with `keepsFailures` it has a column with the failure of each row beside the results. */
  def worker(content: Array[Byte], keepsFailures: Boolean): Array[Byte] = FunctionWorkers.call(function, content, keepsFailures)

  def failure(problem: String): RuntimeException = new FunctionFailure(function.signature, problem)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): UserFunctionCall = copy(arguments = newChildren)(counts)
}
