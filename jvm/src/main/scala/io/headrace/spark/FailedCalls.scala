package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSeq}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.headrace.FunctionCalls
import org.apache.spark.sql.types.{Metadata, StructType}

/** Treatment of a row for which a function of a user fails. */
sealed trait OnFailure extends Serializable

object OnFailure {
  case object EndQuery extends OnFailure
  case object ReturnNull extends OnFailure

  /** The row is left out, and its record is sent to a topic if there is one. */
  final case class LeaveOut(topic: Option[SideTopic]) extends OnFailure
}

/** Treatment of failed calls over the rows of a plan; `source` names where the rows come from, and is empty for rows of several sources. */
final case class FailedCalls(onFailure: OnFailure, source: Seq[(String, String)])

object FailedCalls {

  /** The key of a source's mark in the metadata of one of its columns; `builder.py` sets it. */
  private val Mark = "headrace.functions"

  /** The treatment of failed calls over the rows of `child`, and `child` with the columns that it requires.
    *
    * Rows that several sources contributed to are left out for none of them: the query ends unless all sources return NULL.
    */
  def of(child: LogicalPlan): (FailedCalls, Option[Attribute], Option[Attribute], LogicalPlan) =
    carrying(child) match {
      case Some((column, plan)) =>
        val mark = markOf(column).get
        val record = plan.output.find(_.name == mark.getString("record"))
        val place = Option.when(column.dataType.isInstanceOf[StructType])(column)
        val entity = if (place.isDefined) Nil else Seq("entity" -> mark.getString("entity"))
        (FailedCalls(onFailure(mark, record), ("store" -> mark.getString("store")) +: entity), place, record, plan)
      case None =>
        val marks = child.collect { case node => node.output.flatMap(markOf) }.flatten.map(_.getString("on_failure")).distinct
        (FailedCalls(if (marks == Seq("null")) OnFailure.ReturnNull else OnFailure.EndQuery, Nil), None, None, child)
    }

  private def onFailure(mark: Metadata, record: Option[Attribute]): OnFailure = mark.getString("on_failure") match {
    case "terminate" => OnFailure.EndQuery
    case "null"      => OnFailure.ReturnNull
    case "ignore"    => OnFailure.LeaveOut(None)
    // Without the record there is nothing to keep.
    case topic => if (record.isEmpty) OnFailure.EndQuery else OnFailure.LeaveOut(Some(SideTopic.of(topic)))
  }

  /** A copy of the column under another name has the mark, too. */
  private def markOf(column: Attribute): Option[Metadata] =
    Option.when(column.metadata.contains(Mark))(column.metadata.getMetadata(Mark)).filter(_.getString("column") == column.name)

  /** The marked column of the only source of a plan's rows, and the plan with that column and the record's. */
  private def carrying(plan: LogicalPlan): Option[(Attribute, LogicalPlan)] =
    plan.output.filter(markOf(_).isDefined) match {
      case Seq(column) => Some((column, plan))
      case Seq()       =>
        plan match {
          case node @ Project(columns, below) =>
            carrying(below).map { case (column, changed) =>
              val wanted = changed.output.filter(each => each.exprId == column.exprId || each.name == markOf(column).get.getString("record"))
              (column, node.copy(projectList = columns ++ wanted.filterNot(each => columns.exists(_.exprId == each.exprId)), child = changed))
            }
          case node @ Filter(_, below)        => carrying(below).map { case (column, changed) => (column, node.copy(child = changed)) }
          case node @ SubqueryAlias(_, below) => carrying(below).map { case (column, changed) => (column, node.copy(child = changed)) }
          case node: FunctionCalls => carrying(node.child).map { case (column, changed) => (column, node.copy(child = changed)) }
          case _                   => None
        }
      case _ => None
    }
}

/** Failures of calls in a task: it sends the records of rows that are left out, and completes the error that ends the query. */
final class FailureHandling(failed: FailedCalls, place: Option[Attribute], record: Option[Attribute], input: Seq[Attribute]) {
  private val placeFields = place.map(indexed)
  private val recordFields = record.map(indexed)

  private def indexed(column: Attribute): (Int, StructType) = ((input: AttributeSeq).indexOf(column.exprId), column.dataType.asInstanceOf[StructType])

  def keepsFailures: Boolean = failed.onFailure != OnFailure.EndQuery

  def leavesOut: Boolean = failed.onFailure.isInstanceOf[OnFailure.LeaveOut]

  /** The error with the position of the record of `row`. */
  def located(failure: FunctionFailure, row: InternalRow): FunctionFailure =
    failure.at(position(row).collect { case (name, text) if name != "timestamp_type" => s"${name.replace('_', ' ')} $text" }.mkString(", "))

  /** Handle the failure of a call: count it and send the row's record to the dead letters if there are any. */
  def handle(signature: String, problem: String, row: InternalRow, counts: RowCounts): Unit = {
    counts.add("function_failures")
    failed.onFailure match {
      case OnFailure.LeaveOut(Some(topic)) =>
        val (index, fields) = recordFields.get
        topic.send(row.getStruct(index, fields.size), position(row), "function" -> signature, "error" -> problem.replace('\u0000', '\n'))
      case _ =>
    }
  }

  private def position(row: InternalRow): Seq[(String, String)] =
    failed.source ++ placeFields.toSeq.flatMap { case (index, fields) =>
      if (row.isNullAt(index)) Nil else RecordMetadata.texts(row.getStruct(index, fields.size), fields)
    }
}
