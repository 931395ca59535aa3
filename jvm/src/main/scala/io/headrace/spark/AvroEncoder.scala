package io.headrace.spark

import java.math.RoundingMode

import scala.jdk.CollectionConverters._

import org.apache.avro.{LogicalTypes, Schema}
import org.apache.avro.Schema.Type._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Values of `kind` in Avro by `schema`, after the five bytes of Confluent's wire format with its `id`. For one thread.
  *
  * The schema has a field for each column, in any order, whose type holds the column's values: `formats.avro` sees to it.
  */
private[spark] final class AvroEncoder(kind: DataType, schema: Schema, id: Int) {
  import AvroEncoder._

  private val out = new RecordBytes
  private val write = writer(schema, kind, "")

  def encode(value: Any): Array[Byte] = {
    out.begin()
    out.byte(0)
    out.bits(Integer.reverseBytes(id) & 0xffffffffL, 4)
    write(out, value)
    out.toArray
  }
}

private[spark] object AvroEncoder {
  private type Writer = (RecordBytes, Any) => Unit

  private def writer(schema: Schema, kind: DataType, path: String): Writer = schema.getType match {
    case UNION =>
      val branches = schema.getTypes.asScala
      val absent = branches.indexWhere(_.getType == NULL)
      val present = branches.indexWhere(_.getType != NULL)
      val write = writer(branches(present), kind, path)
      (out, value) =>
        if (value != null) {
          out.zigzag(present.toLong)
          write(out, value)
        } else if (absent < 0) throw missing(path)
        else out.zigzag(absent.toLong)
    case _ =>
      val write = present(schema, kind, path)
      (out, value) => if (value == null) throw missing(path) else write(out, value)
  }

  private def present(schema: Schema, kind: DataType, path: String): Writer = (kind, schema.getType) match {
    case (BooleanType, BOOLEAN)                   => (out, value) => out.byte(if (value.asInstanceOf[Boolean]) 1 else 0)
    case (ByteType | ShortType | IntegerType | LongType | DateType, INT | LONG) =>
      (out, value) => out.zigzag(value.asInstanceOf[Number].longValue)
    case (FloatType, FLOAT)   => (out, value) => out.bits(java.lang.Float.floatToIntBits(value.asInstanceOf[Float]).toLong, 4)
    case (DoubleType, DOUBLE) => (out, value) => out.bits(java.lang.Double.doubleToLongBits(value.asInstanceOf[Double]), 8)
    case (_: StringType, STRING) => (out, value) => sized(out, value.asInstanceOf[UTF8String].getBytes)
    case (_: StringType, ENUM) =>
      (out, value) => {
        val symbol = value.asInstanceOf[UTF8String].toString
        if (!schema.hasEnumSymbol(symbol)) throw unwritable(s"the column $path has the value $symbol, and its Avro enum has no such symbol")
        out.zigzag(schema.getEnumOrdinal(symbol).toLong)
      }
    case (BinaryType, FIXED) =>
      (out, value) => {
        val bytes = value.asInstanceOf[Array[Byte]]
        if (bytes.length != schema.getFixedSize)
          throw unwritable(s"the column $path has ${bytes.length} bytes, and its Avro type is of ${schema.getFixedSize}")
        out.all(bytes)
      }
    case (BinaryType, BYTES)     => (out, value) => sized(out, value.asInstanceOf[Array[Byte]])
    case (_: DecimalType, BYTES | FIXED) =>
      val scale = schema.getLogicalType.asInstanceOf[LogicalTypes.Decimal].getScale
      val size = if (schema.getType == FIXED) schema.getFixedSize else 0
      (out, value) => {
        val number = value.asInstanceOf[Decimal].toJavaBigDecimal.setScale(scale, RoundingMode.HALF_UP).unscaledValue
        val digits = number.toByteArray
        if (size == 0) sized(out, digits)
        else {
          if (digits.length > size) throw unwritable(s"the column $path has a number that is longer than its Avro type of $size bytes")
          (digits.length until size).foreach(_ => out.byte(if (number.signum < 0) -1 else 0))
          out.all(digits)
        }
      }
    case (TimestampType, LONG) =>
      schema.getLogicalType match {
        case _: LogicalTypes.TimestampMillis | _: LogicalTypes.LocalTimestampMillis =>
          (out, value) => out.zigzag(Math.floorDiv(value.asInstanceOf[Long], 1000L))
        case _ => (out, value) => out.zigzag(value.asInstanceOf[Long])
      }
    case (ArrayType(item, _), ARRAY) =>
      val write = writer(schema.getElementType, item, path)
      (out, value) => {
        val items = value.asInstanceOf[ArrayData]
        if (items.numElements() > 0) out.zigzag(items.numElements().toLong)
        items.foreach(item, (_, element) => write(out, element))
        out.zigzag(0)
      }
    case (MapType(key, item, _), MAP) =>
      val write = writer(schema.getValueType, item, path)
      (out, value) => {
        val entries = value.asInstanceOf[MapData]
        if (entries.numElements() > 0) out.zigzag(entries.numElements().toLong)
        entries.foreach(key, item, (name, element) => {
          sized(out, name.asInstanceOf[UTF8String].getBytes)
          write(out, element)
        })
        out.zigzag(0)
      }
    case (struct: StructType, RECORD) => record(schema, struct, path)
    case _ => throw new IllegalArgumentException(s"expected a type of Avro's that holds ${kind.sql}, found ${schema.getType.getName}")
  }

  private def sized(out: RecordBytes, value: Array[Byte]): Unit = {
    out.zigzag(value.length.toLong)
    out.all(value)
  }

  private def record(schema: Schema, struct: StructType, path: String): Writer = {
    val prefix = if (path.isEmpty) "" else s"$path."
    val fields = schema.getFields.asScala.map { field =>
      val place = struct.fieldIndex(field.name)
      val kind = struct(place).dataType
      (place, kind, writer(field.schema, kind, prefix + field.name))
    }.toArray
    (out, value) => {
      val row = value.asInstanceOf[InternalRow]
      fields.foreach { case (place, kind, write) => write(out, if (row.isNullAt(place)) null else row.get(place, kind)) }
    }
  }

  private def missing(path: String): Unwritable = unwritable(s"the column $path is NULL, and its Avro schema has no null there")

  private def unwritable(reason: String): Unwritable = new Unwritable(reason)
}

/** `headrace_to_avro(value, 'schema', id)`: a BINARY, NULL for NULL. See [[AvroEncoder]]. */
private[spark] final case class WriteAvro(child: Expression, schema: String, id: Int) extends UnaryExpression {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_to_avro"
  override protected def stringArgs: Iterator[Any] = Iterator(child, id)

  @transient private lazy val encoder = new AvroEncoder(child.dataType, AvroSchemas.parser().parse(schema), id)

  /** Called by generated code, which holds this expression. */
  def encode(value: Any): Array[Byte] = encoder.encode(value)

  override protected def nullSafeEval(value: Any): Any = encode(value)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("toAvro", this, classOf[WriteAvro].getName)
    defineCodeGen(ctx, ev, value => s"$self.encode($value)")
  }

  override protected def withNewChildInternal(newChild: Expression): WriteAvro = copy(child = newChild)
}
