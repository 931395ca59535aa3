package io.headrace.spark

import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.avro.{AvroRuntimeException, Schema}
import org.apache.spark.sql.catalyst.expressions.{Expression, TernaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The schemas of the Avro files that this process has met, by numbers of its own: they stand where a registry's ids do. */
private[spark] object AvroFiles {

  /** Key in place of a registry's name. */
  val Registry = ""

  private val next = new AtomicInteger
  private val numbers = new ConcurrentHashMap[String, Integer]()
  private val schemas = new ConcurrentHashMap[Integer, Either[String, Schema]]()

  def number(schema: String): Int = numbers.computeIfAbsent(
    schema,
    text => {
      val number = next.getAndIncrement()
      val _ = schemas.put(number, parsed(text))
      number
    }
  )

  /** Throws [[Unreadable]] for a text that is no schema. */
  def schema(number: Int): Option[Schema] = Option(schemas.get(number)).map {
    case Right(schema) => schema
    case Left(reason)  => throw new Unreadable(reason)
  }

  private def parsed(text: String): Either[String, Schema] =
    try Right(AvroSchemas.parser().parse(text))
    catch { case bad: AvroRuntimeException => Left(s"the file's schema cannot be read: ${bad.getMessage}") }
}

/** `headrace_avro_records(block BINARY, count BIGINT, schema STRING)`: an ARRAY of BINARY, the records of a block of an Avro file as
  * `headrace_from_avro` with [[AvroFiles.Registry]] reads them, in the same process.
  *
  * Where the block cannot be divided any further, what is left of it is the last one: whoever reads it finds out why.
  */
private[spark] final case class AvroRecords(first: Expression, second: Expression, third: Expression)
    extends TernaryExpression
    with CodegenFallback {
  override def dataType: DataType = ArrayType(BinaryType, containsNull = false)
  override def nullable: Boolean = true
  override def prettyName: String = "headrace_avro_records"

  @transient private lazy val skippers = mutable.HashMap.empty[Int, AvroBytes => Any]

  override protected def nullSafeEval(block: Any, count: Any, schema: Any): Any = {
    val number = AvroFiles.number(schema.asInstanceOf[UTF8String].toString)
    new GenericArrayData(divided(block.asInstanceOf[Array[Byte]], count.asInstanceOf[Long], number))
  }

  private def divided(block: Array[Byte], count: Long, number: Int): Array[Any] = {
    val bytes = new AvroBytes(block, 0)
    val records = ArrayBuffer.empty[Any]
    var from = 0
    def add(until: Int): Unit = {
      records += ByteBuffer.allocate(5 + until - from).put(0.toByte).putInt(number).put(block, from, until - from).array
      from = until
    }
    try {
      val skip = skippers.getOrElseUpdate(number, AvroDecoder.skipper(AvroFiles.schema(number).get))
      while (records.length < count) {
        skip(bytes)
        add(if (records.length == count - 1) block.length else block.length - bytes.left)
      }
    } catch { case _: Unreadable => add(block.length) }
    records.toArray
  }

  override protected def withNewChildrenInternal(one: Expression, two: Expression, three: Expression): AvroRecords =
    copy(one, two, three)
}
