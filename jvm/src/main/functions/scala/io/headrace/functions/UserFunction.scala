package io.headrace.functions

import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.lang.reflect.{InvocationTargetException, Method, Modifier}
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.{FieldVector, VarCharVector, VectorSchemaRoot}
import org.apache.arrow.vector.complex.{ListVector, StructVector}
import org.apache.arrow.vector.types.pojo.Field
import org.apache.flink.table.functions.{AggregateFunction, FunctionContext, ScalarFunction, TableFunction, UserDefinedFunction}
import org.apache.flink.util.Collector

/** A class of Flink's Table API with its declared types, called for all rows of a batch. */
private[functions] sealed trait UserFunction {
  def instance: UserDefinedFunction
  def isRepeatable: Boolean = instance.isDeterministic

  /** The result of a row; `read` returns the arguments of that row. */
  protected def result(arguments: Array[FieldVector], row: Int): AnyRef
  protected def written: Field

  private lazy val write = Values.writer(written)

  /** Set the results of all rows. A second column of `results` takes the failures; without one the first failure is raised. */
  def call(arguments: VectorSchemaRoot, results: VectorSchemaRoot): Unit = {
    val columns = arguments.getFieldVectors.asScala.toArray
    val column = results.getVector(0)
    column.setInitialCapacity(arguments.getRowCount)
    column.allocateNew()
    val failures = Option.when(results.getFieldVectors.size > 1)(results.getVector(1).asInstanceOf[VarCharVector])
    failures.foreach(_.allocateNew())
    def failed(row: Int, failure: CallFailure): Unit = failures match {
      case Some(texts) =>
        column.setNull(row)
        texts.setSafe(row, failure.text.getBytes(UTF_8))
      case None => throw failure
    }
    val count = arguments.getRowCount
    var row = 0
    while (row < count) {
      try write(column, row, result(columns, row))
      catch {
        case error: Values.NotDeclared                                     => failed(row, new CallFailure(row, error.getMessage, ""))
        case error @ (_: Exception | _: LinkageError | _: StackOverflowError) => failed(row, CallFailure(row, error))
      }
      row += 1
    }
    results.setRowCount(count)
  }
}

private[functions] object UserFunction {

  /** The function of a class, opened. Raises [[CallFailure]] for a class that does not fit its declaration. */
  def apply(kind: String, loaded: Class[_], parameters: Seq[Field], returns: Field, loader: ClassLoader): UserFunction = {
    val instance = loaded.getDeclaredConstructor() match {
      case constructor =>
        constructor.setAccessible(true)
        constructor.newInstance().asInstanceOf[AnyRef]
    }
    val function = (kind, instance) match {
      case ("scalar", scalar: ScalarFunction)          => new Scalar(scalar, parameters, returns)
      case ("table", table: TableFunction[_])          => new Table(table.asInstanceOf[TableFunction[AnyRef]], parameters, returns)
      case ("aggregate", aggregate: AggregateFunction[_, _]) =>
        new Aggregate(aggregate.asInstanceOf[AggregateFunction[AnyRef, AnyRef]], parameters, returns)
      case _ => throw new CallFailure(-1, s"the class ${loaded.getName} is not a function of the kind $kind", "")
    }
    function.instance.open(new FunctionContext(null, loader, null))
    function
  }
}

private final class Scalar(override val instance: ScalarFunction, parameters: Seq[Field], override val written: Field) extends UserFunction {
  private val eval = Invocation(instance, "eval", Nil, parameters)

  override protected def result(arguments: Array[FieldVector], row: Int): AnyRef = eval(arguments, row)
}

/** Its result is an ARRAY of the rows that it collects. */
private final class Table(override val instance: TableFunction[AnyRef], parameters: Seq[Field], override val written: Field) extends UserFunction {
  private val eval = Invocation(instance, "eval", Nil, parameters)
  private val collected = new ArrayBuffer[AnyRef]
  private val isOneColumn = written.getChildren.get(0).getChildren.isEmpty

  instance.setCollector(new Collector[AnyRef] {
    override def collect(value: AnyRef): Unit = {
      if (collected.size == Table.RowsMax) throw new Values.NotDeclared(s"it returned more than ${Table.RowsMax} rows for one row")
      collected += value
    }
    override def close(): Unit = ()
  })

  override protected def result(arguments: Array[FieldVector], row: Int): AnyRef = {
    collected.clear()
    eval(arguments, row)
    collected.map(value => if (isOneColumn) Table.onlyField(value) else value).asJava
  }
}

private object Table {
  val RowsMax = 1000000

  /** The rows of a table of one column are values, which may be collected as rows. */
  private def onlyField(value: AnyRef): AnyRef = value match {
    case row: org.apache.flink.types.Row if row.getArity == 1 => row.getField(0)
    case bare                                                 => bare
  }
}

/** Its argument is an ARRAY of the rows of a group, each a STRUCT of the parameters. */
private final class Aggregate(override val instance: AggregateFunction[AnyRef, AnyRef], parameters: Seq[Field], override val written: Field)
    extends UserFunction {
  private val accumulate = Invocation(instance, "accumulate", Seq(instance.createAccumulator()), parameters)

  override protected def result(arguments: Array[FieldVector], row: Int): AnyRef = {
    val accumulator = instance.createAccumulator()
    val list = arguments.head.asInstanceOf[ListVector]
    val columns = list.getDataVector.asInstanceOf[StructVector].getChildrenFromFields.asScala.toArray
    if (!list.isNull(row))
      for (index <- list.getElementStartIndex(row) until list.getElementEndIndex(row)) accumulate(columns, index, accumulator)
    instance.getValue(accumulator)
  }
}

/** A method with the adaptation of each argument. It is called for each row, so it allocates nothing but the values. */
private final class Invocation(instance: AnyRef, method: Method, leading: Int, parameters: Seq[Field], fits: Seq[Values.Fit]) {
  private val readers = parameters.map(Values.reader).toArray
  private val adapts = fits.map(_.adapt).toArray
  private val types = method.getParameterTypes.drop(leading)
  private val primitive = Array.tabulate(readers.length)(index => index < types.length && types(index).isPrimitive)
  private val fixed = if (method.isVarArgs) types.length - 1 else readers.length
  private val call = Invocation.handle(instance, method)
  // The handle takes them out of the array, which the function therefore does not see.
  private val arguments = new Array[AnyRef](method.getParameterCount)

  /** Call the method with the `before`, of which there are as many as it has leading parameters, and the values of a row. */
  def apply(columns: Array[FieldVector], row: Int, before: AnyRef = null): AnyRef = {
    if (leading > 0) arguments(0) = before
    var index = 0
    while (index < fixed) {
      arguments(leading + index) = value(columns, row, index)
      index += 1
    }
    if (method.isVarArgs) {
      val more = Array.tabulate(readers.length - fixed)(number => value(columns, row, fixed + number))
      arguments(leading + fixed) = Values.arrayOf(types.last.getComponentType, more)
    }
    // As a reflected call has it: also an Error of the function is one of its row.
    try call.invokeExact(arguments)
    catch { case error: Throwable => throw new InvocationTargetException(error) }
  }

  private def value(columns: Array[FieldVector], row: Int, index: Int): AnyRef = {
    val read = readers(index)(columns(index), row)
    if (read == null && primitive(index))
      throw new Values.NotDeclared(s"its argument ${index + 1} is NULL, but ${method.getName} takes ${types(index)}")
    adapts(index)(read)
  }
}

private object Invocation {

  /** The public method of that name that takes the `leading` values and then the parameters, with the best fit. Raises [[CallFailure]]. */
  def apply(instance: AnyRef, name: String, leading: Seq[AnyRef], parameters: Seq[Field]): Invocation = {
    val named = instance.getClass.getMethods.filter(method => method.getName == name && !method.isBridge && !Modifier.isAbstract(method.getModifiers)).toSeq
    val fitting = for {
      method <- named
      classes <- classesOf(method, leading, parameters.length)
      fits = parameters.zip(classes).map { case (parameter, kind) => Values.fit(parameter, kind) }
      if fits.forall(_.isDefined)
    } yield (fits.flatten.map(_.cost).sum + (if (method.isVarArgs) parameters.length + 1 else 0), method, fits.flatten)
    fitting.sortBy { case (cost, method, _) => (cost, method.toString) }.headOption match {
      case Some((_, method, fits)) =>
        method.setAccessible(true)
        new Invocation(instance, method, leading.length, parameters, fits)
      case None =>
        val known = named.map(method => method.getParameterTypes.map(_.getSimpleName).mkString(s"$name(", ", ", ")")).sorted
        val has = if (known.isEmpty) s"it has no public method $name" else s"it has ${known.mkString(", ")}"
        throw new CallFailure(-1, s"the class ${instance.getClass.getName} has no $name for the declared parameters: $has", "")
    }
  }

  /** The method of `instance` as a handle that takes its arguments in one array. */
  private def handle(instance: AnyRef, method: Method): MethodHandle = {
    val found = MethodHandles.lookup().unreflect(method)
    val bound = if (Modifier.isStatic(method.getModifiers)) found else found.bindTo(instance)
    bound
      .asFixedArity()
      .asSpreader(classOf[Array[AnyRef]], method.getParameterCount)
      .asType(MethodType.methodType(classOf[AnyRef], classOf[Array[AnyRef]]))
  }

  private def classesOf(method: Method, leading: Seq[AnyRef], count: Int): Option[Seq[Class[_]]] = {
    val types = method.getParameterTypes.toSeq
    val starts = types.length >= leading.length && leading.zip(types).forall { case (value, kind) => kind.isInstance(value) }
    val rest = types.drop(leading.length)
    if (!starts) None
    else if (method.isVarArgs && count >= rest.length - 1) Some(rest.init ++ Seq.fill(count - rest.length + 1)(rest.last.getComponentType))
    else Option.when(rest.length == count)(rest)
  }
}
