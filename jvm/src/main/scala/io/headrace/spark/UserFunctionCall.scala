package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.headrace.ArrowCaller
import org.apache.spark.sql.types.DataType

/** The results of a function for rows of arguments, as values of Spark's. */
trait FunctionCaller extends (Iterator[InternalRow] => IndexedSeq[Any])

/** `headrace_call('id', argument, …)`: a call of a function of a user.
  *
  * `TakeCallsOut` replaces it by a column that is computed in batches. Where that is not possible it is evaluated row by row, each a round
  * trip to the worker.
  */
final case class UserFunctionCall(function: FunctionLaunch, arguments: Seq[Expression]) extends Expression with CodegenFallback {
  override def children: Seq[Expression] = arguments
  override lazy val dataType: DataType = CatalystSqlParser.parseDataType(function.result)
  override def nullable: Boolean = true
  // It is not to be evaluated when a query is planned.
  override def foldable: Boolean = false
  override def prettyName: String = "headrace_call"
  override protected def stringArgs: Iterator[Any] = Iterator(function.signature) ++ arguments

  @transient private lazy val caller = new ArrowCaller(this)

  override def eval(input: InternalRow): Any =
    caller(Iterator.single(new GenericInternalRow(arguments.map(_.eval(input)).toArray[Any]))).head

  def worker(content: Array[Byte]): Array[Byte] = FunctionWorkers.call(function, content)

  def failure(problem: String): RuntimeException = new FunctionFailure(function.signature, problem)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): UserFunctionCall = copy(arguments = newChildren)
}
