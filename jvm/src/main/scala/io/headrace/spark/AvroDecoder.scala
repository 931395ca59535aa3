package io.headrace.spark

import java.math.{BigDecimal, BigInteger}

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.avro.{LogicalTypes, Schema}
import org.apache.avro.Schema.Type._
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A record in Avro, after the five bytes of Confluent's wire format (0, and the id of the schema it was written with), as `kind`.
  *
  * Fields are found by their names: one that the writer does not have is NULL, one that is no column is passed over. Numbers
  * widen as Avro has it. `schemas` gives the schema of an id; None when there is none.
  */
private[spark] final class AvroDecoder(
    kind: DataType,
    schemas: Int => Option[Schema],
    spelled: (String, String) => Unit,
    named: Int => String = id => s"the schema $id"
) extends RecordDecoder {
  import AvroDecoder._
  import RecordDecoder.{fitted, typeName}

  private val readers = mutable.LongMap.empty[Reader]

  override protected def read(record: Array[Byte]): Any = {
    if (record.length < 5 || record(0) != 0)
      throw new Unreadable(
        "expected a zero byte and the id of a schema before the Avro data, found " +
          (if (record.isEmpty) "nothing" else f"${record.length}%d bytes starting with ${record(0)}%02x")
      )
    val id = java.nio.ByteBuffer.wrap(record, 1, 4).getInt
    val bytes = new AvroBytes(record, 5)
    val value = readers.getOrElseUpdate(id.toLong, compiled(id))(bytes)
    if (bytes.left > 0) throw new Unreadable(s"${bytes.left} bytes follow what is of ${named(id)}")
    value
  }

  private def compiled(id: Int): Reader = {
    val writer = schemas(id).getOrElse(throw new Unreadable(s"the registry knows no schema of the id $id"))
    try reader(writer, kind, "")
    catch {
      // Of all records with this schema, and not asked for again for each.
      case bad: Unreadable =>
        val reason = s"it was written with ${named(id)}: ${bad.getMessage}"
        _ => throw new Unreadable(reason)
    }
  }

  private def reader(writer: Schema, kind: DataType, path: String): Reader = writer.getType match {
    case UNION =>
      val branches = writer.getTypes.asScala.map(branch => if (branch.getType == NULL) Null else reader(branch, kind, path)).toArray
      bytes => {
        val index = bytes.int()
        if (index < 0 || index >= branches.length) throw new Unreadable(s"a union has no branch $index")
        branches(index)(bytes)
      }
    case NULL => Null
    case _    => value(writer, kind, path)
  }

  private def value(writer: Schema, kind: DataType, path: String): Reader = (kind, writer.getType) match {
    case (BooleanType, BOOLEAN)       => _.boolean()
    case (ByteType, INT)              => bytes => within(bytes.int(), Byte.MinValue, Byte.MaxValue, kind, path).toByte
    case (ShortType, INT)             => bytes => within(bytes.int(), Short.MinValue, Short.MaxValue, kind, path).toShort
    case (IntegerType, INT)           => _.int()
    case (LongType, INT | LONG)       => _.long()
    case (FloatType, INT | LONG)      => _.long().toFloat
    case (FloatType, FLOAT)           => _.float()
    case (DoubleType, INT | LONG)     => _.long().toDouble
    case (DoubleType, FLOAT)          => _.float().toDouble
    case (DoubleType, DOUBLE)         => _.double()
    case (decimal: DecimalType, _)    => decimals(writer, decimal, path)
    case (_: StringType, STRING | BYTES) => bytes => text(bytes.sized(), path)
    case (_: StringType, ENUM)        => symbols(writer)
    case (BinaryType, BYTES | STRING) => _.sized()
    case (BinaryType, FIXED)          => val size = writer.getFixedSize.toLong; bytes => bytes.fixed(size)
    case (DateType, INT) if writer.getLogicalType.isInstanceOf[LogicalTypes.Date] => _.int()
    case (TimestampType, LONG)        => times(writer, path)
    case (ArrayType(item, _), ARRAY)  => array(reader(writer.getElementType, item, path))
    case (MapType(_: StringType, item, _), MAP) => map(reader(writer.getValueType, item, path), path)
    case (struct: StructType, RECORD) => record(writer, struct, path)
    case _                            => throw mismatch(kind, path, writer)
  }

  private def decimals(writer: Schema, kind: DecimalType, path: String): Reader = {
    def fit(number: BigDecimal): Decimal = fitted(number, kind).getOrElse(
      throw new Unreadable(s"column $path expects ${typeName(kind)}, found the number ${RecordDecoder.excerpt(number.toString)}")
    )
    (writer.getLogicalType, writer.getType) match {
      case (decimal: LogicalTypes.Decimal, BYTES) =>
        bytes => { val digits = bytes.sized(); fit(if (digits.isEmpty) BigDecimal.ZERO else new BigDecimal(new BigInteger(digits), decimal.getScale)) }
      case (decimal: LogicalTypes.Decimal, FIXED) =>
        val size = writer.getFixedSize.toLong
        bytes => fit(new BigDecimal(new BigInteger(bytes.fixed(size)), decimal.getScale))
      case (null, INT | LONG) => bytes => fit(BigDecimal.valueOf(bytes.long()))
      case _                  => throw mismatch(kind, path, writer)
    }
  }

  private def times(writer: Schema, path: String): Reader = writer.getLogicalType match {
    case _: LogicalTypes.TimestampMillis | _: LogicalTypes.LocalTimestampMillis =>
      bytes => {
        val millis = bytes.long()
        if (millis.abs > Long.MaxValue / 1000) throw new Unreadable(s"column $path expects TIMESTAMP, found the number $millis")
        millis * 1000
      }
    case _: LogicalTypes.TimestampMicros | _: LogicalTypes.LocalTimestampMicros => _.long()
    case _: LogicalTypes.TimestampNanos | _: LogicalTypes.LocalTimestampNanos   => bytes => Math.floorDiv(bytes.long(), 1000L)
    case _ => throw mismatch(TimestampType, path, writer)
  }

  private def symbols(writer: Schema): Reader = {
    val texts = writer.getEnumSymbols.asScala.map(UTF8String.fromString).toArray
    bytes => {
      val index = bytes.int()
      if (index < 0 || index >= texts.length) throw new Unreadable(s"the enum ${writer.getFullName} has no symbol $index")
      texts(index)
    }
  }

  private def array(item: Reader): Reader = bytes => {
    val items = ArrayBuffer.empty[Any]
    blocks(bytes, items.size)(items += item(bytes))
    new GenericArrayData(items.toArray)
  }

  private def map(item: Reader, path: String): Reader = bytes => {
    val keys, values = ArrayBuffer.empty[Any]
    val seen = new java.util.HashSet[UTF8String]
    blocks(bytes, keys.size) {
      val key = text(bytes.sized(), path)
      if (!seen.add(key)) throw new Unreadable(s"the key $key stands twice in $path")
      keys += key
      values += item(bytes)
    }
    new ArrayBasedMapData(new GenericArrayData(keys.toArray), new GenericArrayData(values.toArray))
  }

  private def record(writer: Schema, struct: StructType, path: String): Reader = {
    val prefix = if (path.isEmpty) "" else s"$path."
    val places = struct.fieldNames.zipWithIndex.toMap
    val byLowerCase = struct.fieldNames.map(name => name.toLowerCase(java.util.Locale.ROOT) -> name).toMap
    val steps: Array[(Int, Reader)] = writer.getFields.asScala.map { field =>
      places.get(field.name) match {
        case Some(place) => (place, reader(field.schema, struct(place).dataType, prefix + field.name))
        case None =>
          byLowerCase.get(field.name.toLowerCase(java.util.Locale.ROOT)).foreach(spelled(field.name, _))
          (-1, new Skipper().of(field.schema))
      }
    }.toArray
    val (slots, readers) = (steps.map(_._1), steps.map(_._2))
    val size = struct.size
    bytes => {
      val values = new Array[Any](size)
      var index = 0
      while (index < readers.length) {
        val value = readers(index)(bytes)
        if (slots(index) >= 0) values(slots(index)) = value
        index += 1
      }
      new GenericInternalRow(values)
    }
  }
}

private[spark] object AvroDecoder {
  private type Reader = AvroBytes => Any
  private val Null: Reader = _ => null

  /** Items without bytes cost nothing to claim. */
  private val ItemsMax = 10000000
  private val DepthMax = 500

  private def blocks(bytes: AvroBytes, size: => Int)(item: => Any): Unit = {
    var count = bytes.block()
    while (count > 0) {
      if (count > ItemsMax - size) throw new Unreadable(s"an array or map has more than $ItemsMax items")
      while (count > 0) {
        val _ = item
        count -= 1
      }
      count = bytes.block()
    }
  }

  private def within(number: Int, least: Int, greatest: Int, kind: DataType, path: String): Int =
    if (number >= least && number <= greatest) number
    else throw new Unreadable(s"column $path expects ${RecordDecoder.typeName(kind)}, found the number $number")

  private def text(bytes: Array[Byte], path: String): UTF8String = {
    val content = UTF8String.fromBytes(bytes)
    if (content.isValid) content else throw new Unreadable(s"column $path is not UTF-8")
  }

  private def mismatch(kind: DataType, path: String, writer: Schema): Unreadable = {
    val column = if (path.isEmpty) "expected" else s"column $path expects"
    val logical = Option(writer.getLogicalType).fold("")(logicalType => s", ${logicalType.getName}")
    new Unreadable(s"$column ${RecordDecoder.typeName(kind)}, found ${writer.getType.getName}$logical")
  }

  /** Return a reader that skips a value of a schema, for one thread. Throws [[Unreadable]] for a malformed value. */
  def skipper(writer: Schema): AvroBytes => Any = new Skipper().of(writer)

  /** Builder of readers that skip values. A type may contain itself, so each is built once. */
  private final class Skipper {
    private val named = mutable.Map.empty[String, Reader]
    private var depth = 0

    def of(writer: Schema): Reader = writer.getType match {
      case NULL           => Null
      case BOOLEAN        => _.boolean()
      case INT | LONG | ENUM => _.long()
      case FLOAT          => _.take(4)
      case DOUBLE         => _.take(8)
      case STRING | BYTES => bytes => bytes.take(bytes.long())
      case FIXED          => val size = writer.getFixedSize.toLong; bytes => bytes.take(size)
      case ARRAY          => val item = of(writer.getElementType); bytes => blocks(bytes, 0)(item(bytes))
      case MAP =>
        val item = of(writer.getValueType)
        bytes => blocks(bytes, 0) { val _ = bytes.take(bytes.long()); item(bytes) }
      case UNION =>
        val branches = writer.getTypes.asScala.map(of).toArray
        bytes => {
          val index = bytes.int()
          if (index < 0 || index >= branches.length) throw new Unreadable(s"a union has no branch $index")
          branches(index)(bytes)
        }
      case RECORD =>
        val name = writer.getFullName
        if (!named.contains(name)) {
          var fields = Array.empty[Reader]
          named(name) = bytes => {
            depth += 1
            try {
              if (depth > DepthMax) throw new Unreadable(s"$name is nested deeper than $DepthMax")
              fields.foreach(_(bytes))
            } finally depth -= 1
          }
          fields = writer.getFields.asScala.map(field => of(field.schema)).toArray
        }
        named(name)
    }
  }
}

/** Records by the schemas of a registry; None: of Avro files. */
private[spark] final case class AvroFormat(registry: Option[SchemaRegistry]) extends RecordFormat {
  override def name: String = "avro"
  override def decoder(kind: DataType, spelled: (String, String) => Unit): RecordDecoder = registry match {
    case None         => new AvroDecoder(kind, AvroFiles.schema, spelled, _ => "the file's schema")
    case Some(client) => new AvroDecoder(kind, client.schema, spelled)
  }
}
