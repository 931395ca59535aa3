package io.headrace.spark

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, CreateNamedStruct, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{Partial, PartialMerge}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, ExpandExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.HashAggregateExec

/** Groups the rows of a HOP by slices before they are repeated for the windows that they are in.
  *
  * A slice is as long as the advance, and all its rows are in the same windows. Spark repeats every row for every window
  * and then groups; this groups the rows of a task by slice, repeats the groups, and merges them. What is kept in the
  * state is the same, so that a checkpoint may be of either.
  */
private[spark] object SlicedWindows extends ColumnarRule {

  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    plan.transformUp {
      case grouped: HashAggregateExec
          if grouped.isStreaming && grouped.aggregateExpressions.nonEmpty &&
            grouped.aggregateExpressions.forall(_.mode == Partial) =>
        Windows.below(grouped.child).filter(_.areOnlyAKeyOf(grouped)).fold[SparkPlan](grouped)(bySlice(grouped, _))
    }

  private def bySlice(grouped: HashAggregateExec, windows: Windows): SparkPlan = {
    val keys = grouped.groupingExpressions.filter(_.exprId != windows.window.exprId)
    val buffers = grouped.aggregateExpressions.flatMap(_.aggregateFunction.inputAggBufferAttributes)
    val kept = keys.map(_.toAttribute) ++ buffers
    val slice = windows.slice.toAttribute
    val slices = grouped.copy(
      groupingExpressions = slice +: keys,
      resultExpressions = slice +: kept,
      child = ProjectExec(windows.slice +: windows.columns, windows.rows)
    )
    val repeated = ExpandExec(windows.of(slice).map(_ +: kept), windows.window +: kept, slices)
    grouped.copy(
      groupingExpressions = grouped.groupingExpressions.map(_.toAttribute),
      aggregateExpressions = grouped.aggregateExpressions.map(_.copy(mode = PartialMerge, filter = None)),
      aggregateAttributes = grouped.aggregateExpressions.map(_.resultAttribute),
      initialInputBufferOffset = grouped.groupingExpressions.length,
      child = repeated
    )
  }
}

/** `rows` repeated for each of the windows that `time` is in.
  *
  * @param window the column that holds a window
  * @param columns the other columns, of `rows`
  * @param starts a row's windows, the newest first, as Spark's `window` makes them
  */
private final case class Windows(
    window: Attribute,
    columns: Seq[NamedExpression],
    time: Attribute,
    starts: Seq[CreateNamedStruct],
    rows: SparkPlan
) {

  /** The start of a row's newest window: the start of its slice, whose windows are the row's own. */
  val slice: Alias = Alias(starts.head.valExprs.head, "slice")()

  def of(moment: Attribute): Seq[Expression] =
    starts.map(_.transform { case attribute: Attribute if attribute.exprId == time.exprId => moment })

  /** True if nothing of `grouped` but one of its keys, the window itself, depends on the window. */
  def areOnlyAKeyOf(grouped: HashAggregateExec): Boolean =
    grouped.groupingExpressions.count(_.exprId == window.exprId) == 1 &&
      !(grouped.aggregateExpressions ++ grouped.groupingExpressions.filter(_.exprId != window.exprId))
        .exists(_.references.contains(window))
}

private object Windows {
  def below(plan: SparkPlan): Option[Windows] = plan match {
    case ProjectExec(columns, repeated: ExpandExec) => of(repeated, columns)
    case repeated: ExpandExec => of(repeated, repeated.output)
    case _ => None
  }

  private def of(repeated: ExpandExec, columns: Seq[NamedExpression]): Option[Windows] =
    repeated.output.filterNot(repeated.child.outputSet.contains) match {
      case Seq(made) =>
        val place = repeated.output.indexOf(made)
        val starts = repeated.projections.map(_(place)).collect { case window: CreateNamedStruct => window }
        val others = repeated.projections.map(_.patch(place, Nil, 1))
        val (windows, unchanged) = columns.partition(_.references.contains(made))
        val times = starts.flatMap(_.references).distinct
        (windows, times) match {
          case (Seq(Renamed(window)), Seq(time))
              if starts.length == repeated.projections.length &&
                others.forall(_ == repeated.output.patch(place, Nil, 1)) =>
            Some(Windows(window, unchanged, time, starts, repeated.child))
          case _ => None
        }
      case _ => None
    }

  private object Renamed {
    def unapply(column: NamedExpression): Option[Attribute] = column match {
      case Alias(_: Attribute, _) => Some(column.toAttribute)
      case attribute: Attribute => Some(attribute)
      case _ => None
    }
  }
}
