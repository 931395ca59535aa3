package io.headrace.spark

import java.math.BigDecimal
import java.time.LocalDate

import scala.jdk.CollectionConverters._

import com.google.protobuf.Descriptors.{Descriptor, FieldDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type
import com.google.protobuf.WireFormat
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows of `kind` as a message of Protobuf, behind the bytes `prefix`. For one thread.
  *
  * The message has a field for each column, whose type holds the column's values: `formats.protobuf` sees to it. NULL is not written.
  */
private[spark] final class ProtobufEncoder(kind: StructType, message: Descriptor, prefix: Array[Byte]) {
  private val out = new RecordBytes
  private val write = ProtobufEncoder.message(message, kind, "")

  def encode(row: InternalRow): Array[Byte] = {
    out.begin()
    out.all(prefix)
    write(out, row)
    out.toArray
  }
}

private[spark] object ProtobufEncoder {
  private type Writer = (RecordBytes, Any) => Unit

  /** Writes a value where it is not NULL and, for a field that cannot tell, not the type's zero. */
  private def message(message: Descriptor, kind: StructType, path: String): Writer = {
    val prefix = if (path.isEmpty) "" else s"$path."
    val fields = message.getFields.asScala.filter(field => kind.fieldNames.contains(field.getName)).sortBy(_.getNumber).map { field =>
      val place = kind.fieldIndex(field.getName)
      (place, kind(place).dataType, this.field(field, kind(place).dataType, prefix + field.getName))
    }.toArray
    (out, value) => {
      val row = value.asInstanceOf[InternalRow]
      var index = 0
      while (index < fields.length) {
        val (place, kind, write) = fields(index)
        write(out, if (row.isNullAt(place)) null else row.get(place, kind))
        index += 1
      }
    }
  }

  private def field(field: FieldDescriptor, kind: DataType, path: String): Writer = kind match {
    case MapType(key, item, _) if field.isMapField => map(field, key, item, path)
    case ArrayType(element, _) if field.isRepeated => list(field, element, path)
    case _ =>
      val tag = tagOf(field)
      val write = single(field, kind, path)
      val isZero = if (field.hasPresence) (_: Any) => false else zero(field)
      (out, value) =>
        if (value == null) { if (field.isRequired) throw new Unwritable(s"the column $path is NULL, and its Protobuf field is required") }
        else if (!isZero(value)) {
          out.varint(tag)
          write(out, value)
        }
  }

  private def list(field: FieldDescriptor, kind: DataType, path: String): Writer = {
    val write = single(field, kind, path)
    val tag = tagOf(field)
    def each(value: Any)(one: Any => Unit): Unit = value.asInstanceOf[ArrayData].foreach(
      kind,
      (_, item) => if (item == null) throw new Unwritable(s"the column $path has a NULL in its list, and lists of Protobuf have none") else one(item)
    )
    val packed = (field.getNumber << 3 | WireFormat.WIRETYPE_LENGTH_DELIMITED).toLong
    (out, value) =>
      if (value == null || value.asInstanceOf[ArrayData].numElements() == 0) ()
      else if (field.isPacked) {
        out.varint(packed)
        out.measured(each(value)(write(out, _)))
      } else
        each(value) { item =>
          out.varint(tag)
          write(out, item)
        }
  }

  private def map(field: FieldDescriptor, key: DataType, kind: DataType, path: String): Writer = {
    val Seq(keyField, valueField) = field.getMessageType.getFields.asScala.toSeq
    val (writeKey, writeItem) = (single(keyField, key, path), single(valueField, kind, path))
    val (tag, keyTag, itemTag) = (tagOf(field), tagOf(keyField), tagOf(valueField))
    (out, value) =>
      if (value != null)
        value.asInstanceOf[MapData].foreach(
          key,
          kind,
          (name, item) => {
            if (item == null) throw new Unwritable(s"the column $path has a NULL in its map, and maps of Protobuf have none")
            out.varint(tag)
            out.measured {
              out.varint(keyTag)
              writeKey(out, name)
              out.varint(itemTag)
              writeItem(out, item)
            }
          }
        )
  }

  /** A value without its field's tag. */
  private def single(field: FieldDescriptor, kind: DataType, path: String): Writer = (kind, field.getType) match {
    case (struct: StructType, Type.MESSAGE) =>
      val write = message(field.getMessageType, struct, path)
      (out, value) => out.measured(write(out, value))
    case (TimestampType, Type.MESSAGE) => (out, value) => out.measured(time(out, value.asInstanceOf[Long]))
    case (_, Type.MESSAGE) =>
      val write = this.field(field.getMessageType.findFieldByName("value"), kind, path)
      (out, value) => out.measured(write(out, value))
    case (BooleanType, _)       => (out, value) => out.byte(if (value.asInstanceOf[Boolean]) 1 else 0)
    case (FloatType, _)         => (out, value) => out.bits(java.lang.Float.floatToRawIntBits(value.asInstanceOf[Float]).toLong, 4)
    case (DoubleType, Type.FLOAT) => (out, value) => out.bits(java.lang.Float.floatToRawIntBits(value.asInstanceOf[Double].toFloat).toLong, 4)
    case (DoubleType, _)        => (out, value) => out.bits(java.lang.Double.doubleToRawLongBits(value.asInstanceOf[Double]), 8)
    case (_: StringType, Type.ENUM) => enumeration(field, path)
    case (_: StringType, _)     => (out, value) => sized(out, value.asInstanceOf[UTF8String].getBytes)
    case (BinaryType, _)        => (out, value) => sized(out, value.asInstanceOf[Array[Byte]])
    case (DateType, _)          => (out, value) => sized(out, LocalDate.ofEpochDay(value.asInstanceOf[Int].toLong).toString.getBytes)
    case (_: DecimalType, Type.STRING) => (out, value) => sized(out, value.asInstanceOf[Decimal].toJavaBigDecimal.toPlainString.getBytes)
    case (_: DecimalType, _) =>
      val ((least, greatest), write) = (limits(field), number(field))
      (out, value) => {
        val number = value.asInstanceOf[Decimal].toJavaBigDecimal
        if (number.compareTo(least) < 0 || number.compareTo(greatest) > 0 || number.stripTrailingZeros.scale > 0)
          throw outside(path, field, number.toPlainString)
        write(out, number.toBigInteger.longValue)
      }
    case _ =>
      val write = number(field)
      val (least, greatest) = limits(field)
      val (from, to) = (least.longValue, greatest.min(BigDecimal.valueOf(Long.MaxValue)).longValue)
      (out, value) => {
        val number = value.asInstanceOf[Number].longValue
        if (number < from || number > to) throw outside(path, field, number.toString)
        write(out, number)
      }
  }

  private def number(field: FieldDescriptor): (RecordBytes, Long) => Unit = field.getType match {
    case Type.INT32 | Type.UINT32 | Type.INT64 | Type.UINT64 => _.varint(_)
    case Type.SINT32 | Type.SINT64                           => _.zigzag(_)
    case Type.FIXED32 | Type.SFIXED32                        => _.bits(_, 4)
    case Type.FIXED64 | Type.SFIXED64                        => _.bits(_, 8)
    case _ => throw new IllegalArgumentException(s"expected a field of whole numbers, found ${field.getFullName} of ${ProtobufMessages.typeName(field)}")
  }

  private def limits(field: FieldDescriptor): (BigDecimal, BigDecimal) = {
    def two(power: Int): BigDecimal = BigDecimal.valueOf(2).pow(power)
    field.getType match {
      case Type.UINT32 | Type.FIXED32 => (BigDecimal.ZERO, two(32).subtract(BigDecimal.ONE))
      case Type.UINT64 | Type.FIXED64 => (BigDecimal.ZERO, two(64).subtract(BigDecimal.ONE))
      case Type.INT32 | Type.SINT32 | Type.SFIXED32 => (two(31).negate, two(31).subtract(BigDecimal.ONE))
      case _ => (two(63).negate, two(63).subtract(BigDecimal.ONE))
    }
  }

  private def enumeration(field: FieldDescriptor, path: String): Writer = {
    val numbers = field.getEnumType.getValues.asScala.map(one => UTF8String.fromString(one.getName) -> one.getNumber).toMap
    (out, value) => {
      val name = value.asInstanceOf[UTF8String]
      // As it is read where the type has no name for it.
      val number = numbers.get(name).orElse(name.toString.toIntOption)
      out.varint(number.getOrElse(throw outside(path, field, s"the value $name")).toLong)
    }
  }

  private def time(out: RecordBytes, micros: Long): Unit = {
    val (seconds, nanos) = (Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000)
    if (seconds != 0) {
      out.varint(8)
      out.varint(seconds)
    }
    if (nanos != 0) {
      out.varint(16)
      out.varint(nanos)
    }
  }

  private def sized(out: RecordBytes, value: Array[Byte]): Unit = {
    out.varint(value.length.toLong)
    out.all(value)
  }

  /** True if a value is the default of an absent field. */
  private def zero(field: FieldDescriptor): Any => Boolean = field.getType match {
    case Type.ENUM =>
      val first = UTF8String.fromString(field.getEnumType.getValues.get(0).getName)
      _ == first
    case Type.FLOAT | Type.DOUBLE =>
      // Not the negative zero.
      value => java.lang.Double.doubleToRawLongBits(value.asInstanceOf[Number].doubleValue) == 0
    case _ => {
      case flag: Boolean      => !flag
      case text: UTF8String   => text.numBytes == 0
      case bytes: Array[Byte] => bytes.length == 0
      case number: Decimal    => field.getType != Type.STRING && number.toJavaBigDecimal.signum == 0
      case number: Number     => field.getType != Type.STRING && number.longValue == 0
      case _                  => false
    }
  }

  private def tagOf(field: FieldDescriptor): Long = (field.getNumber << 3 | field.getLiteType.getWireType).toLong

  private def outside(path: String, field: FieldDescriptor, content: String): Unwritable =
    new Unwritable(s"the column $path has $content, which its Protobuf field of the type ${ProtobufMessages.typeName(field)} does not hold")
}

/** `headrace_to_protobuf(row, 'descriptors', 'message', prefix)`: a BINARY, NULL for NULL. See [[ProtobufEncoder]]. */
private[spark] final case class WriteProtobuf(child: Expression, descriptors: String, message: String, prefix: Seq[Byte])
    extends UnaryExpression {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_to_protobuf"
  override protected def stringArgs: Iterator[Any] = Iterator(child, message)

  @transient private lazy val encoder =
    new ProtobufEncoder(child.dataType.asInstanceOf[StructType], ProtobufMessages.named(descriptors, message), prefix.toArray)

  /** Called by generated code, which holds this expression. */
  def encode(row: InternalRow): Array[Byte] = encoder.encode(row)

  override protected def nullSafeEval(row: Any): Any = encode(row.asInstanceOf[InternalRow])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("toProtobuf", this, classOf[WriteProtobuf].getName)
    defineCodeGen(ctx, ev, row => s"$self.encode($row)")
  }

  override protected def withNewChildInternal(newChild: Expression): WriteProtobuf = copy(child = newChild)
}
