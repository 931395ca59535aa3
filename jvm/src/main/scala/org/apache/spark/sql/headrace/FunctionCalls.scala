package org.apache.spark.sql.headrace

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import scala.collection.mutable.ArrayBuffer

import io.headrace.spark.{FailedCalls, FailureHandling, FunctionFailure, FunctionLost, UserFunctionCall}
import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.ArrowColumnVector

/** Rows with the results of `calls`, which are evaluated in batches; the result is NULL for a row that does not meet its guard.
  *
  * `place` is the column with the position of a row's record in its store, and `record` the one with the record, if it may be required.
  * The optimizer does not know the node: it moves nothing across it, so that no function is called twice for a row.
  */
final case class FunctionCalls(
    calls: Seq[Expression],
    guards: Seq[Expression],
    results: Seq[Attribute],
    failed: FailedCalls,
    place: Option[Attribute],
    record: Option[Attribute],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output ++ results
  override def producedAttributes: AttributeSet = AttributeSet(results)
  override protected def withNewChildInternal(newChild: LogicalPlan): FunctionCalls = copy(child = newChild)
}

/** Takes the calls of users' functions out of expressions, after a plan was resolved: each becomes a column of [[FunctionCalls]] below.
  *
  * A call in a branch of a condition is made for the rows that take the branch. What no node below can compute, such as a call over both
  * sides of a join, stays and is evaluated row by row.
  */
object TakeCallsOut extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.resolved || !calls(plan)) plan else plan.resolveOperatorsUp { case node if node.expressions.exists(hasCall) => taken(node) }

  private def calls(plan: LogicalPlan): Boolean = plan.exists(_.expressions.exists(hasCall))

  private def hasCall(expression: Expression): Boolean = expression.exists(_.isInstanceOf[UserFunctionCall])

  private def taken(node: LogicalPlan): LogicalPlan = node match {
    case _: FunctionCalls     => node
    case aggregate: Aggregate => takenFromAggregate(aggregate)
    case unary: UnaryNode     =>
      val (changed, child) = below(unary.expressions, unary.child)
      if (child eq unary.child) unary
      else restored(withExpressions(unary, changed).withNewChildren(Seq(child)), unary.output)
    case other => other
  }

  /** Groups are computed of what is below; a call over an aggregate is made above, with the aggregates as columns. */
  private def takenFromAggregate(node: Aggregate): LogicalPlan = {
    val inner = node.groupingExpressions ++ node.aggregateExpressions.flatMap(_.collect { case each: AggregateExpression => each })
    val (_, child, replaced) = replacements(inner, node.child)
    def lowered(expression: Expression): Expression = withColumns(expression, replaced)
    val grouped = node.groupingExpressions.map(lowered)
    val computed = node.aggregateExpressions.map(each => lowered(each).asInstanceOf[NamedExpression])
    val below = new ArrayBuffer[NamedExpression]
    def column(expression: Expression): Attribute = {
      val named = expression match {
        case attribute: Attribute => attribute
        case other                => below.find { case Alias(same, _) => same.semanticEquals(other); case _ => false }.getOrElse(Alias(other, "part")())
      }
      if (!below.exists(_.exprId == named.exprId)) below += named
      named.toAttribute
    }
    val above = computed.map {
      case named if hasCall(named) =>
        named.transformDown {
          case each: AggregateExpression                            => column(each)
          case each if grouped.exists(_.semanticEquals(each))       => column(each)
        }.asInstanceOf[NamedExpression]
      case named =>
        below += named
        named.toAttribute
    }
    val groups = node.copy(groupingExpressions = grouped, aggregateExpressions = below.toSeq, child = child)
    if (above.exists(hasCall)) taken(Project(above, groups)) else groups.copy(aggregateExpressions = computed)
  }

  private def restored(node: LogicalPlan, output: Seq[Attribute]): LogicalPlan =
    if (node.output.map(_.exprId) == output.map(_.exprId)) node else Project(output, node)

  private def withExpressions(node: UnaryNode, changed: Seq[Expression]): LogicalPlan = {
    val next = changed.iterator
    // In the order of `expressions`.
    node.mapExpressions(_ => next.next())
  }

  private def below(expressions: Seq[Expression], child: LogicalPlan): (Seq[Expression], LogicalPlan) = {
    val (changed, lowered, _) = replacements(expressions, child)
    (changed, lowered)
  }

  /** The expressions with columns in place of their calls, innermost calls first, and `child` with these columns. */
  private def replacements(
      expressions: Seq[Expression],
      child: LogicalPlan
  ): (Seq[Expression], LogicalPlan, Map[Expression, Attribute]) = {
    val found = new ArrayBuffer[(UserFunctionCall, Option[Expression])]
    expressions.foreach(collect(_, None, found))
    val ready = found.filter { case (call, _) => call.references.subsetOf(child.outputSet) }
    val known = ready.iterator.flatMap { case (call, _) => exposed(call, child) }.nextOption()
    if (ready.isEmpty) (expressions, child, Map.empty)
    else if (known.isDefined) {
      val (call, result, changedChild) = known.get
      val columns = Map[Expression, Attribute](call.canonicalized -> result)
      val (rest, all, others) = replacements(expressions.map(withColumns(_, columns)), changedChild)
      (rest, all, columns ++ others)
    } else {
      val entries = ready.groupBy(_._1.canonicalized).values.toSeq.map { same =>
        val guards = same.map(_._2)
        val guard = if (guards.exists(_.isEmpty)) Literal.TrueLiteral else guards.flatten.reduce(Or(_, _))
        (same.head._1, if (guard.references.subsetOf(child.outputSet)) guard else Literal.TrueLiteral)
      }
      val results = entries.map { case (call, _) => AttributeReference(call.prettyName, call.dataType)() }
      val (failed, place, record, source) = FailedCalls.of(child)
      val node = FunctionCalls(entries.map(_._1), entries.map(_._2), results, failed, place, record, source)
      val columns = entries.map(_._1.canonicalized).zip(results).toMap
      val changed = expressions.map(withColumns(_, columns))
      // Calls around these have columns as arguments now.
      val (rest, all, others) = replacements(changed, node)
      (rest, all, columns ++ others)
    }
  }

  /** The result of a call that a condition below has made of the same row already, and `child` with that column. */
  private def exposed(call: UserFunctionCall, child: LogicalPlan): Option[(UserFunctionCall, Attribute, LogicalPlan)] = child match {
    case node: FunctionCalls =>
      val own = node.calls.indices.collectFirst {
        case index if node.calls(index).canonicalized == call.canonicalized && node.guards(index) == Literal.TrueLiteral =>
          (call, node.results(index), node)
      }
      own.orElse(exposed(call, node.child).map { case (_, result, changed) => (call, result, node.copy(child = changed)) })
    case node @ Filter(_, below) => exposed(call, below).map { case (_, result, changed) => (call, result, node.copy(child = changed)) }
    case node @ Project(columns, below) if columns.forall(_.isInstanceOf[Attribute]) =>
      exposed(call, below).map { case (_, result, changed) =>
        (call, result, node.copy(projectList = if (columns.exists(_.exprId == result.exprId)) columns else columns :+ result, child = changed))
      }
    case _ => None
  }

  private def withColumns(expression: Expression, columns: Map[Expression, Attribute]): Expression =
    expression.transformDown { case call: UserFunctionCall => columns.getOrElse(call.canonicalized, call) }

  /** Add the calls of an expression that contain no other call, each with the condition under which it is evaluated.
    *
    * What is evaluated under a condition with a call waits until that call is a column.
    */
  private def collect(expression: Expression, guard: Option[Expression], found: ArrayBuffer[(UserFunctionCall, Option[Expression])]): Unit = {
    def isTrue(condition: Expression): Expression = Coalesce(Seq(condition, Literal.FalseLiteral))
    def branch(value: Expression, condition: Expression): Unit =
      if (!hasCall(condition)) collect(value, Some(guard.fold(condition)(And(_, condition))), found)
    expression match {
      case call: UserFunctionCall if !call.children.exists(hasCall) => found += call -> guard
      case If(condition, yes, no) =>
        collect(condition, guard, found)
        branch(yes, isTrue(condition))
        branch(no, Not(isTrue(condition)))
      case CaseWhen(branches, otherwise) =>
        var reached: Expression = Literal.TrueLiteral
        for ((condition, value) <- branches) {
          branch(condition, reached)
          branch(value, And(reached, isTrue(condition)))
          reached = And(reached, Not(isTrue(condition)))
        }
        otherwise.foreach(branch(_, reached))
      case And(left, right) =>
        collect(left, guard, found)
        branch(right, Coalesce(Seq(left, Literal.TrueLiteral)))
      case Or(left, right) =>
        collect(left, guard, found)
        branch(right, Not(isTrue(left)))
      case Coalesce(first +: rest) =>
        collect(first, guard, found)
        rest.foreach(branch(_, IsNull(first)))
      case other => other.children.foreach(collect(_, guard, found))
    }
  }
}

object FunctionCallStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case FunctionCalls(calls, guards, results, failed, place, record, child) =>
      FunctionCallsExec(calls.map(_.asInstanceOf[UserFunctionCall]), guards, results, failed, place, record, planLater(child)) :: Nil
    case _ => Nil
  }
}

final case class FunctionCallsExec(
    calls: Seq[UserFunctionCall],
    guards: Seq[Expression],
    results: Seq[Attribute],
    failed: FailedCalls,
    place: Option[Attribute],
    record: Option[Attribute],
    child: SparkPlan
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output ++ results
  override def producedAttributes: AttributeSet = AttributeSet(results)
  override def outputPartitioning: org.apache.spark.sql.catalyst.plans.physical.Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, all) = (child.output, output)
    child.execute().mapPartitionsInternal { rows =>
      val handling = new FailureHandling(failed, place, record, input)
      val callers = calls.zip(guards).map { case (call, guard) => new BatchCaller(call, guard, input, handling) }
      val joined = UnsafeProjection.create(all, all)
      new Batches(rows).flatMap { batch =>
        val answers = callers.map(_.results(batch))
        val values = new GenericInternalRow(answers.length)
        val leftOut = if (handling.leavesOut) answers.iterator.flatMap(_.failed).toSet else Set.empty[Int]
        batch.iterator.zipWithIndex.collect { case (row, index) if !leftOut(index) =>
          for (column <- answers.indices) values.update(column, answers(column).values(index))
          joined(new JoinedRow(row, values))
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): FunctionCallsExec = copy(child = newChild)
}

/** Rows some at a time, as copies: the more, the less a call costs, but their arguments are in memory twice. */
private final class Batches(rows: Iterator[InternalRow]) extends Iterator[IndexedSeq[InternalRow]] {
  override def hasNext: Boolean = rows.hasNext

  override def next(): IndexedSeq[InternalRow] = {
    val batch = new ArrayBuffer[InternalRow]
    var bytes = 0L
    while (rows.hasNext && batch.size < Batches.RowsMax && bytes < Batches.BytesMax) {
      val row = rows.next().copy()
      bytes += (row match {
        case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
        case _                 => 0L
      })
      batch += row
    }
    batch.toIndexedSeq
  }
}

private object Batches {
  val RowsMax = 4096
  val BytesMax: Long = 4L << 20
}

/** Results of a function for the rows of a batch, and the rows for which it failed, whose results are NULL. */
private final case class Results(values: IndexedSeq[Any], failed: Iterable[Int])

/** Calls a function for the rows of a batch. */
private final class BatchCaller(call: UserFunctionCall, guard: Expression, input: Seq[Attribute], handling: FailureHandling) {
  private val arguments = UnsafeProjection.create(call.children, input)
  private val asked: InternalRow => Boolean = guard match {
    case Literal.TrueLiteral => _ => true
    case condition           =>
      val predicate = Predicate.create(condition, input)
      predicate.initialize(TaskContext.getPartitionId())
      predicate.eval
  }
  private val caller = new ArrowCaller(call)

  def results(batch: IndexedSeq[InternalRow]): Results = {
    val rows = batch.indices.filter(index => asked(batch(index)))
    val answers =
      if (rows.isEmpty) Answers(IndexedSeq.empty, Map.empty)
      else if (handling.keepsFailures) attempts(batch, rows)
      else
        try Answers(caller(rows.iterator.map(index => arguments(batch(index)))), Map.empty)
        catch { case failure: FunctionFailure if failure.row >= 0 => throw handling.located(failure, batch(rows(failure.row))) }
    for ((index, problem) <- answers.failures.toSeq.sortBy(_._1)) handling.handle(call.function.signature, problem, batch(rows(index)), call.counts)
    val failed = answers.failures.keys.map(rows)
    if (rows.length == batch.length) Results(answers.values, failed)
    else {
      val all = new Array[Any](batch.length)
      for ((row, answer) <- rows.zip(answers.values)) all(row) = answer
      Results(all.toIndexedSeq, failed)
    }
  }

  /** A batch that ends its workers is called again row by row, so that only the rows that do so fail. */
  private def attempts(batch: IndexedSeq[InternalRow], rows: IndexedSeq[Int]): Answers =
    try caller.attempts(rows.iterator.map(index => arguments(batch(index))))
    catch {
      case lost: FunctionLost if rows.length == 1 => Answers(IndexedSeq(null), Map(0 -> lost.getMessage))
      case _: FunctionLost                        =>
        val each = rows.map(row => attempts(batch, IndexedSeq(row)))
        Answers(each.map(_.values.head), each.zipWithIndex.flatMap { case (answer, index) => answer.failures.get(0).map(index -> _) }.toMap)
    }
}

/** Results for rows of arguments, and why there is none, by row: the message, a NUL and the trace. */
private[headrace] final case class Answers(values: IndexedSeq[Any], failures: Map[Int, String])

/** A function over rows of arguments: they go to its worker as Arrow, and the results come back so. */
final class ArrowCaller(call: UserFunctionCall) {
  private val schema = StructType(call.children.zipWithIndex.map { case (child, index) =>
    org.apache.spark.sql.types.StructField(s"a$index", child.dataType)
  })
  private val arrow = ArrowUtils.toArrowSchema(schema, "UTC", errorOnDuplicatedFieldNames = false, largeVarTypes = false)

  /** The results, as values of Spark's. Raises [[FunctionFailure]] if one fails. */
  def apply(rows: Iterator[InternalRow]): IndexedSeq[Any] =
    try answers(rows, keepsFailures = false).values
    catch { case lost: FunctionLost => throw lost.failure }

  /** The results, of which some may have failed. Raises [[FunctionLost]] if the worker ends. */
  def attempts(rows: Iterator[InternalRow]): Answers = answers(rows, keepsFailures = true)

  private def answers(rows: Iterator[InternalRow], keepsFailures: Boolean): Answers = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("headrace functions", 0, Long.MaxValue)
    try {
      val (content, count) = written(rows, allocator)
      read(call.worker(content, keepsFailures), count, if (keepsFailures) 2 else 1, allocator)
    } finally allocator.close()
  }

  private def written(rows: Iterator[InternalRow], allocator: org.apache.arrow.memory.BufferAllocator): (Array[Byte], Int) = {
    val root = VectorSchemaRoot.create(arrow, allocator)
    try {
      val writer = ArrowWriter.create(root)
      var count = 0
      for (row <- rows) {
        writer.write(row)
        count += 1
      }
      writer.finish()
      root.setRowCount(count)
      val bytes = new ByteArrayOutputStream
      val stream = new ArrowStreamWriter(root, null, bytes)
      stream.start()
      stream.writeBatch()
      stream.end()
      (bytes.toByteArray, count)
    } finally root.close()
  }

  private def read(content: Array[Byte], count: Int, width: Int, allocator: org.apache.arrow.memory.BufferAllocator): Answers = {
    val reader = new ArrowStreamReader(new ByteArrayInputStream(content), allocator)
    try {
      val root = reader.getVectorSchemaRoot
      reader.loadNextBatch()
      if (root.getRowCount != count || root.getFieldVectors.size != width) throw call.failure("its answer has other rows than declared")
      val column = new ArrowColumnVector(root.getVector(0))
      if (!org.apache.spark.sql.types.DataType.equalsIgnoreNullability(plain(column.dataType), plain(call.dataType)))
        throw call.failure("its answer is of another type than declared")
      val accessor = InternalRow.getAccessor(call.dataType)
      val row = new org.apache.spark.sql.vectorized.ColumnarBatch(Array(column), count)
      val values = (0 until count).map { index =>
        val values = row.getRow(index)
        if (values.isNullAt(0)) null else InternalRow.copyValue(accessor(values, 0))
      }
      val problems = if (width == 2) Option(root.getVector(1)) else None
      Answers(values, problems.iterator.flatMap(texts => (0 until count).filterNot(texts.isNull).map(index => index -> texts.getObject(index).toString)).toMap)
    } finally reader.close()
  }

  /** A TIMESTAMP is the same with and without a time zone: both are microseconds in UTC. */
  private def plain(kind: org.apache.spark.sql.types.DataType): org.apache.spark.sql.types.DataType = {
    import org.apache.spark.sql.types._
    kind match {
      case TimestampNTZType            => TimestampType
      case ArrayType(element, _)       => ArrayType(plain(element))
      case MapType(key, value, _)      => MapType(plain(key), plain(value))
      case StructType(fields)          => StructType(fields.map(field => StructField(field.name, plain(field.dataType))))
      case other                       => other
    }
  }
}
