package io.headrace.spark

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression}
import org.apache.spark.sql.execution.{FilterExec, SparkPlan}
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.StreamingQuery

/** Rows that came to, and passed, the conditions and joins of a query in its last batch.
  *
  * Spark counts the rows of most operators anyway, for its own pages. Reading the counts once per report costs a walk over the plan,
  * and the batches nothing.
  */
object StepRows {
  private val LabelLength = 200
  private val mapper = new ObjectMapper()

  /** `{"outputRows": rows or null, "steps": [{"step", "input_rows", "output_rows"}]}`, from the sources to the sink. */
  def ofLastBatch(query: StreamingQuery): String = {
    val root = mapper.createObjectNode()
    val steps = root.putArray("steps")
    val plan = SparkInternals.lastPlan(query)
    plan.flatMap(rows) match {
      case Some(count) => root.put("outputRows", count)
      case None        => root.putNull("outputRows")
    }
    for {
      node <- plan.toSeq.flatMap(_.collect { case node => node }).reverse
      label <- label(node)
      out <- counted(node)
      in <- sum(node.children)
    } steps.addObject().put("step", label).put("input_rows", in).put("output_rows", out)
    mapper.writeValueAsString(root)
  }

  private def label(node: SparkPlan): Option[String] = node match {
    case filter: FilterExec                => Some(s"WHERE ${written(filter.condition)}")
    case join: StreamingSymmetricHashJoinExec =>
      val keys = join.leftKeys.zip(join.rightKeys).map { case (left, right) => s"${written(left)} = ${written(right)}" }
      Some(shortened(s"JOIN ON ${keys.mkString(" AND ")}"))
    case join: BaseJoinExec =>
      val keys = join.leftKeys.zip(join.rightKeys).map { case (left, right) => s"${written(left)} = ${written(right)}" }
      Some(shortened(s"JOIN ON ${keys.mkString(" AND ")}"))
    case state: TransformWithStateExec =>
      Some(state.statefulProcessor.getClass.getSimpleName.stripSuffix("Processor")).filter(_.endsWith("Join"))
    case _ => None
  }

  /** The SQL of an expression, without the qualifiers of columns, which are names of our own. */
  private def written(expression: Expression): String =
    shortened(expression.transform { case column: AttributeReference => column.withQualifier(Nil) }.sql.replace("`", ""))

  private def shortened(text: String): String = if (text.length > LabelLength) text.take(LabelLength) + "…" else text

  /** Rows that `node` gives: its own count, or that of what is below an operator that Spark does not count. */
  private def rows(node: SparkPlan): Option[Long] = counted(node).orElse(sum(node.children))

  private def sum(nodes: Seq[SparkPlan]): Option[Long] = {
    val known = nodes.map(rows)
    Option.when(known.nonEmpty && known.forall(_.isDefined))(known.flatten.sum)
  }

  private def counted(node: SparkPlan): Option[Long] = node.metrics.get("numOutputRows").map(_.value)
}
