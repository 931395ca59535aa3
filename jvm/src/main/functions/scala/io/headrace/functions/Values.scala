package io.headrace.functions

import java.math.BigDecimal
import java.nio.charset.StandardCharsets.UTF_8
import java.sql
import java.time.{Instant, LocalDate, LocalDateTime, ZoneOffset}
import java.util

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector._
import org.apache.arrow.vector.complex.{ListVector, MapVector, StructVector}
import org.apache.arrow.vector.types.FloatingPointPrecision
import org.apache.arrow.vector.types.pojo.{ArrowType, Field}
import org.apache.flink.table.data.{DecimalData, StringData, TimestampData}
import org.apache.flink.types.Row

/** Values of a declared type: read from Arrow as Flink's default Java classes, adapted to the class that a method takes, and written.
  *
  * A TIMESTAMP_LTZ is declared with a time zone, a TIMESTAMP without one; both come as microseconds since 1970.
  */
private[functions] object Values {

  /** Fit of a parameter's class to a type: the less, the better. */
  final case class Fit(cost: Int, adapt: AnyRef => AnyRef)

  private val Exact = 0
  private val Wider = 1
  private val Any = 2
  private val MicrosPerSecond = 1000000L

  private def isLocal(field: Field): Boolean = field.getType.asInstanceOf[ArrowType.Timestamp].getTimezone != null

  private def child(field: Field, index: Int): Field = field.getChildren.get(index)

  // --- reading

  /** The function that returns the value of a vector at a row; `field` is the declared type. */
  def reader(field: Field): (FieldVector, Int) => AnyRef = {
    val read = present(field)
    (vector, row) => if (vector.isNull(row)) null else read(vector, row)
  }

  private def present(field: Field): (FieldVector, Int) => AnyRef = field.getType match {
    case kind: ArrowType.Int if kind.getBitWidth == 64 => (vector, row) => Long.box(vector.asInstanceOf[BigIntVector].get(row))
    case kind: ArrowType.Int if kind.getBitWidth == 32 => (vector, row) => Int.box(vector.asInstanceOf[IntVector].get(row))
    case _: ArrowType.Utf8      => (vector, row) => new String(vector.asInstanceOf[VarCharVector].get(row), UTF_8)
    case _: ArrowType.Binary    => (vector, row) => vector.asInstanceOf[VarBinaryVector].get(row)
    case _: ArrowType.Date      => (vector, row) => LocalDate.ofEpochDay(vector.asInstanceOf[DateDayVector].get(row).toLong)
    case _: ArrowType.Timestamp =>
      val local = isLocal(field)
      (vector, row) => moment(vector.asInstanceOf[TimeStampVector].get(row), local)
    case _: ArrowType.List =>
      val element = reader(child(field, 0))
      (vector, row) => {
        val list = vector.asInstanceOf[ListVector]
        Array.tabulate[AnyRef](list.getElementEndIndex(row) - list.getElementStartIndex(row)) { index =>
          element(list.getDataVector, list.getElementStartIndex(row) + index)
        }
      }
    case _: ArrowType.Map =>
      val Seq(key, value) = child(field, 0).getChildren.asScala.toSeq.map(reader)
      (vector, row) => {
        val map = vector.asInstanceOf[MapVector]
        val entries = map.getDataVector.asInstanceOf[StructVector]
        val result = new util.LinkedHashMap[AnyRef, AnyRef]
        for (index <- map.getElementStartIndex(row) until map.getElementEndIndex(row))
          result.put(key(entries.getChildrenFromFields.get(0), index), value(entries.getChildrenFromFields.get(1), index))
        result
      }
    case _: ArrowType.Struct =>
      val names = field.getChildren.asScala.map(_.getName).toSeq
      val readers = field.getChildren.asScala.map(reader).toSeq
      (vector, row) => {
        val columns = vector.asInstanceOf[StructVector].getChildrenFromFields
        val result = Row.withNames()
        for (((name, read), index) <- names.zip(readers).zipWithIndex) result.setField(name, read(columns.get(index), row))
        result
      }
    case _ => (vector, row) => vector.getObject(row).asInstanceOf[AnyRef]
  }

  private def moment(micros: Long, local: Boolean): AnyRef = {
    val instant = Instant.ofEpochSecond(Math.floorDiv(micros, MicrosPerSecond), Math.floorMod(micros, MicrosPerSecond) * 1000)
    if (local) instant else LocalDateTime.ofInstant(instant, ZoneOffset.UTC)
  }

  // --- parameters

  /** The adaptation of a value of the declared type to a `parameter`; None if there is none. */
  def fit(field: Field, parameter: Class[_]): Option[Fit] = {
    val boxed = boxedClass(parameter)
    val found = field.getType match {
      case kind: ArrowType.Int => integer(kind.getBitWidth, boxed)
      case kind: ArrowType.FloatingPoint =>
        val single = kind.getPrecision == FloatingPointPrecision.SINGLE
        if (single && boxed == classOf[java.lang.Double]) Some(Fit(Wider, value => Double.box(value.asInstanceOf[Number].doubleValue)))
        else same(boxed, if (single) classOf[java.lang.Float] else classOf[java.lang.Double])
      case _: ArrowType.Bool => same(boxed, classOf[java.lang.Boolean])
      case _: ArrowType.Utf8 =>
        same(boxed, classOf[String]).orElse(when(boxed, classOf[StringData])(value => StringData.fromString(value.asInstanceOf[String])))
      case _: ArrowType.Binary => same(boxed, classOf[Array[Byte]])
      case kind: ArrowType.Decimal =>
        same(boxed, classOf[BigDecimal]).orElse(when(boxed, classOf[DecimalData]) { value =>
          DecimalData.fromBigDecimal(value.asInstanceOf[BigDecimal], kind.getPrecision, kind.getScale)
        })
      case _: ArrowType.Date =>
        same(boxed, classOf[LocalDate])
          .orElse(when(boxed, classOf[sql.Date])(value => sql.Date.valueOf(value.asInstanceOf[LocalDate])))
          .orElse(when(boxed, classOf[Integer])(value => Int.box(value.asInstanceOf[LocalDate].toEpochDay.toInt)))
      case _: ArrowType.Timestamp if isLocal(field) =>
        same(boxed, classOf[Instant])
          .orElse(when(boxed, classOf[java.lang.Long])(value => Long.box(value.asInstanceOf[Instant].toEpochMilli)))
          .orElse(when(boxed, classOf[sql.Timestamp])(value => sql.Timestamp.from(value.asInstanceOf[Instant])))
          .orElse(when(boxed, classOf[TimestampData])(value => TimestampData.fromInstant(value.asInstanceOf[Instant])))
      case _: ArrowType.Timestamp =>
        same(boxed, classOf[LocalDateTime])
          .orElse(when(boxed, classOf[sql.Timestamp])(value => sql.Timestamp.valueOf(value.asInstanceOf[LocalDateTime])))
          .orElse(when(boxed, classOf[TimestampData])(value => TimestampData.fromLocalDateTime(value.asInstanceOf[LocalDateTime])))
      case _: ArrowType.List   => list(child(field, 0), boxed)
      case _: ArrowType.Map    => same(boxed, classOf[util.Map[_, _]])
      case _: ArrowType.Struct => same(boxed, classOf[Row])
      case _                   => None
    }
    found.orElse(Option.when(boxed == classOf[Object])(identityAt(Any)))
  }

  private def identityAt(cost: Int): Fit = Fit(cost, value => value)

  private def same(parameter: Class[_], kind: Class[_]): Option[Fit] =
    if (parameter == kind) Some(identityAt(Exact)) else Option.when(parameter.isAssignableFrom(kind))(identityAt(Any))

  private def when(parameter: Class[_], kind: Class[_])(adapt: AnyRef => AnyRef): Option[Fit] =
    Option.when(parameter == kind)(Fit(Wider, value => if (value == null) null else adapt(value)))

  private def integer(bits: Int, parameter: Class[_]): Option[Fit] = {
    val classes = Seq(8 -> classOf[java.lang.Byte], 16 -> classOf[java.lang.Short], 32 -> classOf[Integer], 64 -> classOf[java.lang.Long])
    classes.collectFirst {
      case (width, kind) if kind == parameter && width == bits => identityAt(Exact)
      case (width, kind) if kind == parameter && width > bits  => Fit(Wider, value => if (value == null) null else widened(value, width))
    }.orElse(Option.when(parameter == classOf[Number])(identityAt(Any)))
  }

  private def widened(value: AnyRef, bits: Int): AnyRef = {
    val number = value.asInstanceOf[Number]
    bits match {
      case 16 => Short.box(number.shortValue)
      case 32 => Int.box(number.intValue)
      case _  => Long.box(number.longValue)
    }
  }

  private def list(element: Field, parameter: Class[_]): Option[Fit] =
    if (parameter.isArray) {
      val component = parameter.getComponentType
      fit(element, component).map { inner =>
        Fit(inner.cost, value => if (value == null) null else arrayOf(component, value.asInstanceOf[Array[AnyRef]].map(inner.adapt)))
      }
    } else if (parameter.isAssignableFrom(classOf[util.List[_]]) && parameter != classOf[Object])
      Some(Fit(Exact, value => if (value == null) null else util.Arrays.asList(value.asInstanceOf[Array[AnyRef]]: _*)))
    else Option.when(parameter == classOf[Object])(identityAt(Any))

  /** An array of a class, which may be a primitive one. */
  def arrayOf(component: Class[_], values: Array[AnyRef]): AnyRef = {
    val array = java.lang.reflect.Array.newInstance(component, values.length)
    for ((value, index) <- values.zipWithIndex) java.lang.reflect.Array.set(array, index, value)
    array
  }

  def boxedClass(kind: Class[_]): Class[_] =
    if (kind.isPrimitive) java.lang.invoke.MethodType.methodType(kind).wrap().returnType() else kind

  // --- writing

  /** Refusal of a returned value: it is not of the declared type. */
  final class NotDeclared(message: String) extends RuntimeException(message)

  /** The function that sets the value of a vector at a row; it raises [[NotDeclared]]. */
  def writer(field: Field): (FieldVector, Int, AnyRef) => Unit = {
    val write = presentWriter(field)
    (vector, row, value) => if (value == null) vector.setNull(row) else write(vector, row, value)
  }

  private def presentWriter(field: Field): (FieldVector, Int, AnyRef) => Unit = {
    def refuse(value: AnyRef): Nothing =
      throw new NotDeclared(s"it returned ${value.getClass.getName}, which is not of the declared type")
    field.getType match {
      case kind: ArrowType.Int =>
        (vector, row, value) =>
          val number = value match {
            case n @ (_: java.lang.Byte | _: java.lang.Short | _: Integer | _: java.lang.Long) => n.asInstanceOf[Number].longValue
            case _                                                                            => refuse(value)
          }
          if (kind.getBitWidth < 64 && number != (number << (64 - kind.getBitWidth)) >> (64 - kind.getBitWidth))
            throw new NotDeclared(s"it returned $number, which does not fit into the declared type")
          vector match {
            case whole: TinyIntVector  => whole.setSafe(row, number.toInt)
            case whole: SmallIntVector => whole.setSafe(row, number.toInt)
            case whole: IntVector      => whole.setSafe(row, number.toInt)
            case whole                 => whole.asInstanceOf[BigIntVector].setSafe(row, number)
          }
      case _: ArrowType.FloatingPoint =>
        (vector, row, value) =>
          val number = value match {
            case n: Number if !n.isInstanceOf[BigDecimal] => n.doubleValue
            case _                                        => refuse(value)
          }
          vector match {
            case single: Float4Vector => single.setSafe(row, number.toFloat)
            case double               => double.asInstanceOf[Float8Vector].setSafe(row, number)
          }
      case _: ArrowType.Bool =>
        (vector, row, value) =>
          value match {
            case flag: java.lang.Boolean => vector.asInstanceOf[BitVector].setSafe(row, if (flag) 1 else 0)
            case _                       => refuse(value)
          }
      case _: ArrowType.Utf8 =>
        (vector, row, value) =>
          value match {
            case text @ (_: String | _: StringData | _: java.lang.Character) => vector.asInstanceOf[VarCharVector].setSafe(row, text.toString.getBytes(UTF_8))
            case _                                  => refuse(value)
          }
      case _: ArrowType.Binary =>
        (vector, row, value) =>
          value match {
            case bytes: Array[Byte] => vector.asInstanceOf[VarBinaryVector].setSafe(row, bytes)
            case _                  => refuse(value)
          }
      case kind: ArrowType.Decimal =>
        (vector, row, value) =>
          val exact = value match {
            case number: BigDecimal  => number
            case number: DecimalData => number.toBigDecimal
            case n @ (_: Integer | _: java.lang.Long) => BigDecimal.valueOf(n.asInstanceOf[Number].longValue)
            case _ => refuse(value)
          }
          val rounded = exact.setScale(kind.getScale, java.math.RoundingMode.HALF_UP)
          if (rounded.precision > kind.getPrecision)
            throw new NotDeclared(s"it returned $exact, which does not fit into DECIMAL(${kind.getPrecision}, ${kind.getScale})")
          vector.asInstanceOf[DecimalVector].setSafe(row, rounded)
      case _: ArrowType.Date =>
        (vector, row, value) =>
          val day = value match {
            case date: LocalDate => date.toEpochDay
            case date: sql.Date  => date.toLocalDate.toEpochDay
            case number: Integer => number.longValue
            case _               => refuse(value)
          }
          vector.asInstanceOf[DateDayVector].setSafe(row, day.toInt)
      case _: ArrowType.Timestamp =>
        val local = isLocal(field)
        (vector, row, value) =>
          val instant = value match {
            case moment: Instant                       => moment
            case moment: LocalDateTime                 => moment.toInstant(ZoneOffset.UTC)
            case moment: sql.Timestamp if local        => moment.toInstant
            case moment: sql.Timestamp                 => moment.toLocalDateTime.toInstant(ZoneOffset.UTC)
            case moment: TimestampData                 => moment.toInstant
            case millis: java.lang.Long if local       => Instant.ofEpochMilli(millis)
            case _                                     => refuse(value)
          }
          val micros = Math.addExact(Math.multiplyExact(instant.getEpochSecond, MicrosPerSecond), instant.getNano / 1000L)
          vector match {
            case zoned: TimeStampMicroTZVector => zoned.setSafe(row, micros)
            case plain                         => plain.asInstanceOf[TimeStampMicroVector].setSafe(row, micros)
          }
      case _: ArrowType.List =>
        val write = writer(child(field, 0))
        (vector, row, value) =>
          val values: Seq[AnyRef] = value match {
            case list: java.lang.Iterable[_]        => list.asScala.toSeq.map(_.asInstanceOf[AnyRef])
            case array if array.getClass.isArray    =>
              Seq.tabulate(java.lang.reflect.Array.getLength(array))(java.lang.reflect.Array.get(array, _))
            case _                                  => refuse(value)
          }
          val list = vector.asInstanceOf[ListVector]
          val start = list.startNewValue(row)
          for ((element, index) <- values.zipWithIndex) {
            grow(list.getDataVector, start + index)
            write(list.getDataVector, start + index, element)
          }
          list.endValue(row, values.length)
      case _: ArrowType.Map =>
        val entries = child(field, 0)
        val (writeKey, writeValue) = (writer(child(entries, 0)), writer(child(entries, 1)))
        (vector, row, value) =>
          val pairs = value match {
            case map: util.Map[_, _] => map.asScala.toSeq
            case _                   => refuse(value)
          }
          val map = vector.asInstanceOf[MapVector]
          val start = map.startNewValue(row)
          val both = map.getDataVector.asInstanceOf[StructVector]
          for (((key, item), index) <- pairs.zipWithIndex) {
            if (key == null) throw new NotDeclared("it returned a MAP with a key that is NULL")
            grow(both, start + index)
            both.setIndexDefined(start + index)
            writeKey(both.getChildrenFromFields.get(0), start + index, key.asInstanceOf[AnyRef])
            writeValue(both.getChildrenFromFields.get(1), start + index, item.asInstanceOf[AnyRef])
          }
          map.endValue(row, pairs.length)
      case _: ArrowType.Struct =>
        val names = field.getChildren.asScala.map(_.getName).toSeq
        val writers = field.getChildren.asScala.map(writer).toSeq
        (vector, row, value) =>
          val parts = fields(value, names)
          val struct = vector.asInstanceOf[StructVector]
          grow(struct, row)
          struct.setIndexDefined(row)
          for (((write, part), index) <- writers.zip(parts).zipWithIndex) write(struct.getChildrenFromFields.get(index), row, part)
      case other => throw new NotDeclared(s"the type $other is not supported")
    }
  }

  private def grow(vector: FieldVector, row: Int): Unit = while (vector.getValueCapacity <= row) vector.reAlloc()

  /** The fields of a row, or of an object with public fields of these names, or getters for them. */
  private def fields(value: AnyRef, names: Seq[String]): Seq[AnyRef] = value match {
    case row: Row =>
      if (row.getArity != names.length) throw new NotDeclared(s"it returned a Row of ${row.getArity} fields where ${names.length} are declared")
      val named = Option(row.getFieldNames(false)).map(_.asScala.toSet).getOrElse(Set.empty[String])
      if (names.forall(named.contains)) names.map(row.getField(_)) else names.indices.map(index => row.getField(index)).toSeq
    case other => names.map(name => field(other, name))
  }

  private def field(value: AnyRef, name: String): AnyRef = {
    val kind = value.getClass
    val getter = s"get${name.take(1).toUpperCase}${name.drop(1)}"
    kind.getFields.find(_.getName.equalsIgnoreCase(name)).map(_.get(value))
      .orElse(kind.getMethods.find(method => method.getParameterCount == 0 && Seq(getter, name).exists(method.getName.equalsIgnoreCase)).map(_.invoke(value)))
      .getOrElse(throw new NotDeclared(s"it returned ${kind.getName}, which has no field $name"))
  }
}
