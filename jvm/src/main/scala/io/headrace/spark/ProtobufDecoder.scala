package io.headrace.spark

import java.math.{BigDecimal, BigInteger}

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import com.google.protobuf.{CodedInputStream, InvalidProtocolBufferException, WireFormat}
import com.google.protobuf.Descriptors.{Descriptor, FieldDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A message of Protobuf as the columns of `kind`.
  *
  * Fields are found by their names: a column that is no field is NULL, a field that is no column is passed over. A field that does
  * not know whether it was set has its type's zero where it is not there; any other is NULL. `messages` says of which
  * message a record is, and where its bytes begin.
  */
private[spark] final class ProtobufDecoder(
    kind: StructType,
    messages: ProtobufDecoder.Messages,
    spelled: (String, String) => Unit
) extends RecordDecoder {
  import ProtobufDecoder._

  private val readers = mutable.HashMap.empty[Descriptor, Array[Byte] => Any]
  private var last: Descriptor = _
  private var reader: Array[Byte] => Any = _

  override protected def read(record: Array[Byte]): Any = {
    val message = messages.of(record)
    if (message ne last) {
      reader = readers.getOrElseUpdate(message, compiled(message))
      last = message
    }
    reader(record)
  }

  private def compiled(message: Descriptor): Array[Byte] => Any =
    try {
      val fields = new MessageReader(message, kind, "", spelled)
      record => {
        val from = messages.start
        val in = CodedInputStream.newInstance(record, from, record.length - from)
        try fields.row(fields.read(in, null))
        catch {
          case bad: InvalidProtocolBufferException => throw new Unreadable(s"it is not a valid ${message.getFullName}: ${reason(bad)}")
        }
      }
    } catch {
      // Of all records of this message, and not asked for again for each.
      case bad: Unreadable =>
        val reason = s"it is a ${message.getFullName}: ${bad.getMessage}"
        _ => throw new Unreadable(reason)
    }
}

private[spark] object ProtobufDecoder {

  /** Messages for one thread. */
  trait Messages {

    /** The message that a record is of. Throws [[Unreadable]]. */
    def of(record: Array[Byte]): Descriptor

    /** Start of the record's data, of which `of` was asked last. */
    def start: Int
  }

  /** All records are of one message, and nothing stands before them. */
  final class One(message: Descriptor) extends Messages {
    override def of(record: Array[Byte]): Descriptor = message
    override def start: Int = 0
  }

  /** Confluent's wire format: a zero byte, the id of a schema, where in its file the message stands, and the data.
    *
    * `files` gives the file of an id. With `messageName`, records of other messages are bad.
    */
  final class Registered(files: Int => Option[com.google.protobuf.Descriptors.FileDescriptor], messageName: String) extends Messages {
    private val known = mutable.HashMap.empty[(Int, Seq[Int]), Descriptor]
    private val firsts = mutable.LongMap.empty[Descriptor]
    private var at = 0

    override def start: Int = at

    override def of(record: Array[Byte]): Descriptor = {
      if (record.length < 6 || record(0) != 0)
        throw new Unreadable(
          "expected a zero byte, the id of a schema and the place of a message before the Protobuf data, found " +
            (if (record.isEmpty) "nothing" else f"${record.length}%d bytes starting with ${record(0)}%02x")
        )
      val id = java.nio.ByteBuffer.wrap(record, 1, 4).getInt
      if (record(5) == 0) {
        at = 6
        firsts.getOrElseUpdate(id.toLong, message(id, First))
      } else {
        val bytes = new AvroBytes(record, 5)
        val count = bytes.int()
        if (count < 1 || count > IndexesMax) throw new Unreadable(s"the place of its message has $count parts")
        val indexes = Seq.fill(count)(bytes.int())
        at = record.length - bytes.left
        known.getOrElseUpdate((id, indexes), message(id, indexes))
      }
    }

    private def message(id: Int, indexes: Seq[Int]): Descriptor = {
      val file = files(id).getOrElse(throw new Unreadable(s"the registry knows no schema of the id $id"))
      ProtobufMessages.at(file, indexes) match {
        case None => throw new Unreadable(s"its schema $id has no message at ${indexes.mkString(", ")}")
        case Some(descriptor)
            if messageName.nonEmpty && descriptor.getFullName != messageName &&
              !descriptor.getFullName.endsWith(s".$messageName") =>
          throw new Unreadable(s"expected the message $messageName, found ${descriptor.getFullName}")
        case Some(descriptor) => descriptor
      }
    }
  }

  private val First = Seq(0)
  private val IndexesMax = 50
  private val Dense = 1024

  private def reason(bad: InvalidProtocolBufferException): String =
    if (bad.getMessage.contains("ended unexpectedly")) "it ends in the midst of a value" else bad.getMessage

  /** Reader of a field into the place of its column. */
  private abstract class FieldReader(val slot: Int, val wireType: Int, val name: String) {
    def read(in: CodedInputStream, wireType: Int, values: Array[Any]): Unit

    /** Value of a field at the end of the message. */
    def finished(value: Any): Any = value
    def finishes: Boolean = false

    protected def miswritten(actualType: Int): Unreadable =
      new Unreadable(s"its field $name is written in another way than its type is (wire type $actualType, not $wireType)")
  }

  /** The fields of a message that are columns. Values are kept unfinished in an array until the message ends: it may go on in a second piece. */
  private final class MessageReader(message: Descriptor, kind: StructType, path: String, spelled: (String, String) => Unit) {
    private val prefix = if (path.isEmpty) "" else s"$path."
    private val places = kind.fieldNames.zipWithIndex.toMap
    private val template = new Array[Any](kind.size)
    private val fields: Seq[(FieldDescriptor, FieldReader)] = {
      val byLowerCase = kind.fieldNames.map(name => name.toLowerCase(java.util.Locale.ROOT) -> name).toMap
      message.getFields.asScala.toSeq.flatMap { field =>
        places.get(field.getName) match {
          case Some(place) => Some(field -> fieldReader(field, kind(place).dataType, place))
          case None =>
            byLowerCase.get(field.getName.toLowerCase(java.util.Locale.ROOT)).foreach(spelled(field.getName, _))
            None
        }
      }
    }
    private val dense = new Array[FieldReader](fields.map(_._1.getNumber).filter(_ < Dense).maxOption.getOrElse(0) + 1)
    private val sparse = mutable.LongMap.empty[FieldReader]
    for ((field, reader) <- fields)
      if (field.getNumber < Dense) dense(field.getNumber) = reader else sparse(field.getNumber.toLong) = reader
    private val finishing = fields.map(_._2).filter(_.finishes).toArray
    private val required = fields.filter(_._1.isRequired).map(_._2).toArray

    /** The values of a message, whose beginning may be in `before`. */
    def read(in: CodedInputStream, before: Array[Any]): Array[Any] = {
      val values = if (before == null) template.clone() else before
      var tag = in.readTag()
      while (tag != 0) {
        val number = WireFormat.getTagFieldNumber(tag)
        val field = if (number < dense.length) dense(number) else if (sparse.isEmpty) null else sparse.getOrNull(number.toLong)
        if (field != null) field.read(in, WireFormat.getTagWireType(tag), values)
        else if (!in.skipField(tag)) throw new Unreadable("a group ends before it starts")
        tag = in.readTag()
      }
      values
    }

    def row(values: Array[Any]): GenericInternalRow = {
      var index = 0
      while (index < finishing.length) {
        val field = finishing(index)
        values(field.slot) = field.finished(values(field.slot))
        index += 1
      }
      index = 0
      while (index < required.length) {
        if (values(required(index).slot) == null) throw new Unreadable(s"the required field ${required(index).name} is missing")
        index += 1
      }
      new GenericInternalRow(values)
    }

    private def fieldReader(field: FieldDescriptor, kind: DataType, slot: Int): FieldReader = {
      val name = prefix + field.getName
      kind match {
        case MapType(key, value, _) if field.isMapField => new MapReader(field, key, value, slot, name)
        case ArrayType(element, _) if field.isRepeated && !field.isMapField => new ListReader(field, element, slot, name)
        case _ if field.isRepeated => throw mismatch(kind, name, field)
        case struct: StructType if field.getType == Type.MESSAGE => new StructReader(field, struct, slot, name)
        case _ => new SingleReader(field, kind, slot, name)
      }
    }

    private def siblings(field: FieldDescriptor): Array[Int] = Option(field.getRealContainingOneof).fold(Array.empty[Int])(
      _.getFields.asScala.filter(_ ne field).flatMap(other => places.get(other.getName)).toArray
    )

    private final class SingleReader(field: FieldDescriptor, kind: DataType, slot: Int, name: String)
        extends FieldReader(slot, wire(field), name) {
      private val value = single(field, kind, name, spelled)
      private val others = siblings(field)
      if (!field.hasPresence) template(slot) = value.zero
      override def read(in: CodedInputStream, actualType: Int, values: Array[Any]): Unit = {
        if (actualType != wireType) throw miswritten(actualType)
        values(slot) = value.read(in)
        if (others.length > 0) others.foreach(values(_) = null)
      }
    }

    private final class StructReader(field: FieldDescriptor, kind: StructType, slot: Int, name: String)
        extends FieldReader(slot, WireFormat.WIRETYPE_LENGTH_DELIMITED, name) {
      private val inner = new MessageReader(field.getMessageType, kind, name, spelled)
      private val others = siblings(field)
      override def read(in: CodedInputStream, actualType: Int, values: Array[Any]): Unit = {
        if (actualType != wireType) throw miswritten(actualType)
        val before = values(slot).asInstanceOf[Array[Any]]
        values(slot) = limited(in)(inner.read(in, before))
        if (others.length > 0) others.foreach(values(_) = null)
      }
      override def finishes: Boolean = true
      override def finished(value: Any): Any = if (value == null) null else inner.row(value.asInstanceOf[Array[Any]])
    }

    private final class ListReader(field: FieldDescriptor, kind: DataType, slot: Int, name: String)
        extends FieldReader(slot, wire(field), name) {
      private val value = single(field, kind, name, spelled)
      override def read(in: CodedInputStream, actualType: Int, values: Array[Any]): Unit = {
        var items = values(slot).asInstanceOf[ArrayBuffer[Any]]
        if (items == null) {
          items = ArrayBuffer.empty[Any]
          values(slot) = items
        }
        if (actualType == wireType) items += value.read(in)
        else if (actualType == WireFormat.WIRETYPE_LENGTH_DELIMITED && field.isPackable)
          limited(in)(while (in.getBytesUntilLimit > 0) items += value.read(in))
        else throw miswritten(actualType)
      }
      override def finishes: Boolean = true
      override def finished(value: Any): Any =
        if (value == null) Nothing else new GenericArrayData(value.asInstanceOf[ArrayBuffer[Any]].toArray)
    }

    private final class MapReader(field: FieldDescriptor, key: DataType, kind: DataType, slot: Int, name: String)
        extends FieldReader(slot, WireFormat.WIRETYPE_LENGTH_DELIMITED, name) {
      private val Seq(keyField, valueField) = field.getMessageType.getFields.asScala.toSeq
      private val (keys, entryValues) = (single(keyField, key, name, spelled), single(valueField, kind, name, spelled))
      private val (keyTag, valueTag) = (WireFormatTags.of(keyField), WireFormatTags.of(valueField))
      override def read(in: CodedInputStream, actualType: Int, values: Array[Any]): Unit = {
        if (actualType != wireType) throw miswritten(actualType)
        var entries = values(slot).asInstanceOf[java.util.LinkedHashMap[Any, Any]]
        if (entries == null) {
          entries = new java.util.LinkedHashMap[Any, Any]
          values(slot) = entries
        }
        limited(in) {
          var key = keys.zero
          var item: Any = null
          var tag = in.readTag()
          while (tag != 0) {
            if (tag == keyTag) key = keys.read(in)
            else if (tag == valueTag) item = entryValues.read(in)
            else if (!in.skipField(tag)) throw new Unreadable("a group ends before it starts")
            tag = in.readTag()
          }
          val _ = entries.put(key, if (item == null) entryValues.zero else item)
        }
      }
      override def finishes: Boolean = true
      override def finished(value: Any): Any = {
        val entries = value.asInstanceOf[java.util.LinkedHashMap[Any, Any]]
        if (entries == null) NoEntries
        else new ArrayBasedMapData(items(entries.keySet), items(entries.values))
      }
    }
  }

  private def items(all: java.util.Collection[Any]): GenericArrayData = new GenericArrayData(all.toArray.asInstanceOf[Array[Any]])

  private val Nothing = new GenericArrayData(Array.empty[Any])
  private val NoEntries = new ArrayBasedMapData(Nothing, Nothing)

  private def wire(field: FieldDescriptor): Int = field.getLiteType.getWireType

  private object WireFormatTags {
    def of(field: FieldDescriptor): Int = field.getNumber << 3 | wire(field)
  }

  /** Reads what is of a length that stands before it. */
  private def limited[T](in: CodedInputStream)(read: => T): T = {
    val before = in.pushLimit(in.readRawVarint32())
    val content = read
    in.popLimit(before)
    content
  }

  /** A value; `zero` is that of a field that was not written. */
  private trait Value {
    def zero: Any
    def read(in: CodedInputStream): Any
  }

  private def value(nothing: Any)(reading: CodedInputStream => Any): Value = new Value {
    override val zero: Any = nothing
    override def read(in: CodedInputStream): Any = reading(in)
  }

  private def single(field: FieldDescriptor, kind: DataType, name: String, spelled: (String, String) => Unit): Value =
    (kind, field.getType) match {
      case (struct: StructType, Type.MESSAGE) =>
        val inner = new MessageReader(field.getMessageType, struct, name, spelled)
        new Value {
          override def zero: Any = inner.row(inner.read(CodedInputStream.newInstance(Array.emptyByteArray), null))
          override def read(in: CodedInputStream): Any = limited(in)(inner.row(inner.read(in, null)))
        }
      case (TimestampType, Type.MESSAGE) if field.getMessageType.getFullName == ProtobufMessages.Timestamp => value(0L)(time(name))
      case (_, Type.MESSAGE) =>
        val inner = ProtobufMessages.wrapped(field.getMessageType).getOrElse(throw mismatch(kind, name, field))
        val wrapped = single(inner, kind, name, spelled)
        val tag = WireFormatTags.of(inner)
        value(wrapped.zero) { in =>
          limited(in) {
            var item = wrapped.zero
            var next = in.readTag()
            while (next != 0) {
              if (next == tag) item = wrapped.read(in)
              else if (!in.skipField(next)) throw new Unreadable("a group ends before it starts")
              next = in.readTag()
            }
            item
          }
        }
      case (BooleanType, Type.BOOL)     => value(false)(_.readBool())
      case (FloatType, Type.FLOAT)      => value(0f)(_.readFloat())
      case (DoubleType, Type.DOUBLE)    => value(0.0)(_.readDouble())
      case (DoubleType, Type.FLOAT)     => value(0.0)(_.readFloat().toDouble)
      case (_: StringType, Type.STRING) => value(UTF8String.EMPTY_UTF8)(text(name))
      case (_: StringType, Type.ENUM)   => enumeration(field)
      case (BinaryType, Type.BYTES)     => value(Array.emptyByteArray)(_.readByteArray())
      case (DateType, Type.STRING) =>
        value(null) { in =>
          val content = text(name)(in).toString
          TimeText.days(content).getOrElse(throw unlike(kind, name, s"""the text "${RecordDecoder.excerpt(content)}""""))
        }
      case (decimal: DecimalType, Type.STRING) =>
        value(null) { in =>
          val content = text(name)(in).toString
          Option.when(RecordDecoder.isNumber(content))(new BigDecimal(content)).flatMap(RecordDecoder.fitted(_, decimal))
            .getOrElse(throw unlike(kind, name, s"""the text "${RecordDecoder.excerpt(content)}""""))
        }
      case _ => wholeNumber(field, kind, name)
    }

  private def wholeNumber(field: FieldDescriptor, kind: DataType, name: String): Value = {
    val (number, unsigned): (CodedInputStream => Long, Boolean) = field.getType match {
      case Type.INT32    => (_.readInt32().toLong, false)
      case Type.SINT32   => (_.readSInt32().toLong, false)
      case Type.SFIXED32 => (_.readSFixed32().toLong, false)
      case Type.UINT32   => (_.readUInt32() & 0xffffffffL, false)
      case Type.FIXED32  => (_.readFixed32() & 0xffffffffL, false)
      case Type.INT64    => (_.readInt64(), false)
      case Type.SINT64   => (_.readSInt64(), false)
      case Type.SFIXED64 => (_.readSFixed64(), false)
      case Type.UINT64   => (_.readUInt64(), true)
      case Type.FIXED64  => (_.readFixed64(), true)
      case _             => throw mismatch(kind, name, field)
    }
    val wide = field.getType match {
      case Type.INT64 | Type.SINT64 | Type.SFIXED64 | Type.UINT64 | Type.FIXED64 => true
      case _ => false
    }
    def within(number: Long, least: Long, greatest: Long): Long =
      if (number >= least && number <= greatest && !(unsigned && number < 0)) number
      else throw unlike(kind, name, s"the number ${if (unsigned) java.lang.Long.toUnsignedString(number) else number.toString}")
    kind match {
      case ByteType if !wide    => value(0.toByte)(in => within(number(in), Byte.MinValue, Byte.MaxValue).toByte)
      case ShortType if !wide   => value(0.toShort)(in => within(number(in), Short.MinValue, Short.MaxValue).toShort)
      case IntegerType if !wide => value(0)(in => within(number(in), Int.MinValue, Int.MaxValue).toInt)
      case LongType if unsigned => value(0L)(in => within(number(in), 0, Long.MaxValue))
      case LongType             => value(0L)(in => number(in))
      case decimal: DecimalType =>
        value(Decimal(BigDecimal.ZERO, decimal.precision, decimal.scale)) { in =>
          val bits = number(in)
          val whole = if (unsigned) new BigDecimal(new BigInteger(java.lang.Long.toUnsignedString(bits))) else BigDecimal.valueOf(bits)
          RecordDecoder.fitted(whole, decimal).getOrElse(throw unlike(kind, name, s"the number $whole"))
        }
      case _ => throw mismatch(kind, name, field)
    }
  }

  /** A number that the type does not name is that number, as in Protobuf's JSON. */
  private def enumeration(field: FieldDescriptor): Value = {
    val names = mutable.LongMap.empty[UTF8String]
    field.getEnumType.getValues.asScala.reverseIterator.foreach(one => names(one.getNumber.toLong) = UTF8String.fromString(one.getName))
    def named(number: Int): UTF8String = names.getOrElse(number.toLong, UTF8String.fromString(number.toString))
    value(UTF8String.fromString(field.getEnumType.getValues.get(0).getName))(in => named(in.readEnum()))
  }

  private def time(name: String)(in: CodedInputStream): Any = limited(in) {
    var seconds = 0L
    var nanos = 0
    var tag = in.readTag()
    while (tag != 0) {
      if (tag == 8) seconds = in.readInt64()
      else if (tag == 16) nanos = in.readInt32()
      else if (!in.skipField(tag)) throw new Unreadable("a group ends before it starts")
      tag = in.readTag()
    }
    if (seconds < LeastSecond || seconds > GreatestSecond || nanos < 0 || nanos > 999999999)
      throw unlike(TimestampType, name, s"$seconds seconds and $nanos nanoseconds")
    seconds * 1000000 + nanos / 1000
  }

  /** The years 1 to 9999, which Protobuf's timestamps have. */
  private val (leastYear, greatestYear) = (java.time.LocalDate.of(1, 1, 1), java.time.LocalDate.of(10000, 1, 1))
  private val LeastSecond = leastYear.toEpochDay * 86400
  private val GreatestSecond = greatestYear.toEpochDay * 86400 - 1

  private def text(name: String)(in: CodedInputStream): UTF8String = {
    val content = UTF8String.fromBytes(in.readByteArray())
    if (content.isValid) content else throw new Unreadable(s"column $name is not UTF-8")
  }

  private def unlike(kind: DataType, name: String, actual: String): Unreadable =
    new Unreadable(s"column $name expects ${RecordDecoder.typeName(kind)}, found $actual")

  private def mismatch(kind: DataType, name: String, field: FieldDescriptor): Unreadable =
    unlike(kind, name, ProtobufMessages.typeName(field))
}

/** Records of `message` in the FileDescriptorSet `descriptors` (base64), or of the schemas of `registry`. */
private[spark] final case class ProtobufFormat(registry: Option[SchemaRegistry], message: String, descriptors: String) extends RecordFormat {
  override def name: String = "protobuf"
  override def decoder(kind: DataType, spelled: (String, String) => Unit): RecordDecoder = {
    val messages = registry match {
      case None         => new ProtobufDecoder.One(ProtobufMessages.named(descriptors, message))
      case Some(client) => new ProtobufDecoder.Registered(client.messages, message)
    }
    new ProtobufDecoder(kind.asInstanceOf[StructType], messages, spelled)
  }
}
