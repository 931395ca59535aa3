package io.headrace.spark

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression, IsNotNull, PredicateHelper}
import org.apache.spark.sql.execution.{FilterExec, SparkPlan}
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.streaming.StreamingQuery

/** Rows that the conditions and joins of queries received and passed, summed over the batches since the last report.
  *
  * Spark counts the rows of most operators anyway, for its own pages. A batch costs a walk over its plan, in the thread of listeners
  * ([[org.apache.spark.sql.headrace.BatchListener]]).
  */
object StepRows extends PredicateHelper {
  private val LabelLength = 200
  private val mapper = new ObjectMapper()
  private val runs = new ConcurrentHashMap[UUID, Sums]()

  private final class Sums {
    private var newest = -1L
    private var output = Option.empty[Long]
    private val steps = mutable.LinkedHashMap.empty[String, (Long, Long)]

    def add(number: Long, plan: SparkPlan): Unit = synchronized {
      // With some sinks a batch is an execution within an execution, and both end.
      if (number > newest) {
        newest = number
        rows(plan).foreach(count => output = Some(output.getOrElse(0L) + count))
        for {
          // From the sources to the sink.
          node <- plan.collect { case node => node }.reverse
          label <- label(node)
          out <- counted(node)
          in <- sum(inputs(node))
        } {
          val (before, passed) = steps.getOrElse(label, (0L, 0L))
          steps.update(label, (before + in, passed + out))
        }
      }
    }

    def takeInto(root: ObjectNode): Unit = synchronized {
      output.foreach(count => root.put("outputRows", count))
      steps.foreach { case (label, (in, out)) =>
        root.withArray[ArrayNode]("steps").addObject().put("step", label).put("input_rows", in).put("output_rows", out)
      }
      output = None
      steps.clear()
    }
  }

  /** Adds a batch of a run, which has ended. */
  def add(run: UUID, number: Long, plan: SparkPlan): Unit = runs.computeIfAbsent(run, _ => new Sums).add(number, plan)

  /** Lets go the sums of a run that has ended. */
  def forget(run: UUID): Unit = { val _ = runs.remove(run) }

  /** Takes the sums of the run of a query: `{"outputRows": rows or null, "steps": [{"step", "input_rows", "output_rows"}]}`. */
  def take(query: StreamingQuery): String = {
    val root = mapper.createObjectNode()
    root.putArray("steps")
    root.putNull("outputRows")
    Option(runs.get(query.runId)).foreach(_.takeInto(root))
    mapper.writeValueAsString(root)
  }

  private def label(node: SparkPlan): Option[String] = node match {
    case filter: FilterExec =>
      Some(asWritten(filter.condition)).filter(_.nonEmpty).map(parts => shortened(s"WHERE ${parts.map(written).mkString(" AND ")}"))
    case join: StreamingSymmetricHashJoinExec => Some(joined(join.leftKeys, join.rightKeys))
    case join: BaseJoinExec                   => Some(joined(join.leftKeys, join.rightKeys))
    case state: TransformWithStateExec =>
      Some(state.statefulProcessor.getClass.getSimpleName.stripSuffix("Processor")).filter(_.endsWith("Join"))
    case _ => None
  }

  private def joined(left: Seq[Expression], right: Seq[Expression]): String =
    shortened("JOIN ON " + left.zip(right).map { case (ours, theirs) => s"${written(ours)} = ${written(theirs)}" }.mkString(" AND "))

  /** The parts of a condition, without the tests for NULL that Spark has added for others, or for a watermark of ours. */
  private def asWritten(condition: Expression): Seq[Expression] = {
    val parts = splitConjunctivePredicates(condition)
    parts.filter {
      case test @ IsNotNull(column: Attribute) => !parts.exists(part => !(part eq test) && part.references.contains(column))
      case part                                => !part.references.exists(_.name.startsWith(InternalColumns.Prefix))
    }
  }

  /** The SQL of an expression, without the qualifiers of columns, which are names of our own. */
  private def written(expression: Expression): String =
    expression.transform { case column: AttributeReference => column.withQualifier(Nil) }.sql.replace("`", "")

  private def shortened(text: String): String = if (text.length > LabelLength) text.take(LabelLength) + "…" else text

  /** Rows that `node` returns: its own count, or that of what is below an operator that Spark does not count. */
  private def rows(node: SparkPlan): Option[Long] = counted(node).orElse(sum(inputs(node)))

  /** The inputs of `node` with rows of the query: another one is of a first state, which we never have. */
  private def inputs(node: SparkPlan): Seq[SparkPlan] = node match {
    case state: TransformWithStateExec => Seq(state.child)
    case _                             => node.children
  }

  private def sum(nodes: Seq[SparkPlan]): Option[Long] = {
    val known = nodes.map(rows)
    Option.when(known.nonEmpty && known.forall(_.isDefined))(known.flatten.sum)
  }

  private def counted(node: SparkPlan): Option[Long] = node.metrics.get("numOutputRows").map(_.value)
}
