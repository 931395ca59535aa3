package io.headrace.spark

import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types.{DataType, DateType}

/** `headrace_time(time, digits, safe)`: a DATE or TIMESTAMP within the years 1 to 9999, cut to `digits` digits of a second.
  *
  * Spark's own go from year -290308 to 294247, which neither Python nor what we write can hold. Beyond the range the result is
  * NULL if `safe`, else an ArithmeticException ends the query.
  */
private[spark] final case class BoundedTime(child: Expression, digits: Int, safe: Boolean) extends UnaryExpression {
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = safe || child.nullable
  override def prettyName: String = "headrace_time"
  override protected def stringArgs: Iterator[Any] = Iterator(child, digits, safe)

  // Lazy: a child may not be resolved yet.
  private lazy val ofDay = child.dataType == DateType
  private lazy val (least, greatest) = if (ofDay) BoundedTime.Days else BoundedTime.Micros
  private lazy val unit = if (ofDay) 1L else math.pow(10, 6 - digits).toLong

  /** Called by generated code, which holds this expression. */
  def fits(time: Long): Boolean = time >= least && time <= greatest

  def cut(time: Long): Long =
    if (fits(time)) time - Math.floorMod(time, unit)
    else throw new ArithmeticException("a DATE or TIMESTAMP is within the years 1 to 9999")

  override protected def nullSafeEval(time: Any): Any = time match {
    case days: Int    => if (safe && !fits(days)) null else cut(days).toInt
    case micros: Long => if (safe && !fits(micros)) null else cut(micros)
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("boundedTime", this, classOf[BoundedTime].getName)
    val kind = if (ofDay) "int" else "long"
    nullSafeCodeGen(ctx, ev, time => {
      val assigned = s"${ev.value} = ($kind) $self.cut($time);"
      if (safe) s"if ($self.fits($time)) { $assigned } else { ${ev.isNull} = true; }" else assigned
    })
  }

  override protected def withNewChildInternal(newChild: Expression): BoundedTime = copy(child = newChild)
}

private[spark] object BoundedTime {
  private val Days = (-719162L, 2932896L)
  private val Micros = (DateTimeUtils.daysToMicros(Days._1.toInt, java.time.ZoneOffset.UTC),
    DateTimeUtils.daysToMicros(Days._2.toInt + 1, java.time.ZoneOffset.UTC) - 1)
}
