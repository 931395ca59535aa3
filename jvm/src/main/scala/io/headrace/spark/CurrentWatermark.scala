package io.headrace.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.LeafExpression
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.headrace.{EarlyWatermark, SparkInternals}
import org.apache.spark.sql.types.{DataType, TimestampType}

/** `headrace_current_watermark()`: the TIMESTAMP up to which rows of a batch are late; NULL before the first watermark. */
private[spark] final case class CurrentWatermark(micros: java.lang.Long = null) extends LeafExpression {
  // The value changes between batches: a filter with it stays where it is, and is not inferred for the other side of a join.
  override lazy val deterministic: Boolean = false
  override def dataType: DataType = TimestampType
  override def nullable: Boolean = true
  override def prettyName: String = "headrace_current_watermark"
  override def eval(input: InternalRow): Any = micros

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    // From outside, as in OfBatch: a constant in the code would compile the stage anew in each batch.
    val known = ctx.addReferenceObj("watermark", micros, classOf[java.lang.Long].getName)
    ev.copy(code = code"""
         |boolean ${ev.isNull} = $known == null;
         |long ${ev.value} = ${ev.isNull} ? 0L : $known.longValue();
         |""".stripMargin)
  }
}

/** Fills in the watermark of each batch, which is in the checkpoint before the batch runs: a repeated batch has the same one. */
private[spark] object CurrentWatermarks extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    if (!plan.exists(_.expressions.exists(_.exists(_.isInstanceOf[CurrentWatermark])))) plan
    else {
      val execution = SparkInternals.plannedQuery.flatMap(SparkInternals.execution(plan.session, _))
      val lateMs = execution.fold(EarlyWatermark.NoneMs)(SparkInternals.lateMs(_, plan))
      // A row is late at or before this time. Where only windows read the watermark, it is a millisecond later: see QueryRun.
      val aheadMs = if (execution.exists(SparkInternals.comparesEventTimes)) 0L else 1L
      val micros = if (lateMs == EarlyWatermark.NoneMs) null else Long.box((lateMs - aheadMs) * 1000)
      plan.transformAllExpressions { case _: CurrentWatermark => CurrentWatermark(micros) }
    }
}
