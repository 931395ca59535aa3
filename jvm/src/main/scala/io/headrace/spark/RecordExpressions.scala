package io.headrace.spark

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** `headrace_from_json(record BINARY, 'type', 'times')`, `headrace_from_csv(record, 'type', 'times', 'delimiter')`: a STRUCT of `value`,
  * of that type, and `reason`, which says why there is none. NULL for NULL. See [[RecordDecoder]].
  */
private[spark] final case class ReadRecord(child: Expression, kind: DataType, format: RecordFormat, counts: RowCounts)
    extends UnaryExpression
    with CountsRows {
  override def dataType: DataType = new StructType().add("value", kind).add("reason", StringType)
  override def nullable: Boolean = child.nullable
  override def prettyName: String = s"headrace_from_${format.name}"
  override protected def stringArgs: Iterator[Any] = Iterator(child)

  @transient private lazy val decoder = format.decoder(kind, counts.spelled)

  /** Called by generated code, which holds this expression. */
  def decode(record: Array[Byte]): InternalRow = decoder.decode(record)

  override protected def nullSafeEval(record: Any): Any = decode(record.asInstanceOf[Array[Byte]])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("readRecord", this, classOf[ReadRecord].getName)
    defineCodeGen(ctx, ev, record => s"$self.decode($record)")
  }

  override protected def withNewChildInternal(newChild: Expression): ReadRecord = copy(child = newChild)
}

/** `headrace_admit(row, problem, reason, metadata, record[, time], instead)`: an array of the row where `problem` is NULL. `time` is the
  * TIMESTAMP that the store has for the record, of which the oldest one of a batch is counted.
  *
  * Else what the literal `instead` says: the query ends by a [[BadRecord]] (`terminate`); or the record is counted under the
  * name that `problem` is and left out (`ignore`): the array is empty; or it is also sent to the [[SideTopic]] of that id,
  * for which `record` is a STRUCT of [[SideTopic.Record]]. `metadata` is a STRUCT that says where the record stands, as its store does.
  */
private[spark] final case class AdmitRecord(children: Seq[Expression], instead: AdmitRecord.Instead, counts: RowCounts)
    extends Expression
    with CountsRows {
  private val Seq(row, problem, _, metadata) = children.take(4)
  private val time = children.lift(5)

  // So that the optimizer neither moves it, nor drops or repeats what it counts.
  override lazy val deterministic: Boolean = false
  override def dataType: DataType = ArrayType(row.dataType, containsNull = false)
  override def nullable: Boolean = false
  override def prettyName: String = "headrace_admit"
  override protected def stringArgs: Iterator[Any] = children.iterator ++ Iterator(instead)

  /** Called by generated code, which holds this expression. */
  def admitted(row: InternalRow): ArrayData = new GenericArrayData(Array[Any](row))

  /** Called by generated code. */
  def seen(micros: Long): Unit = counts.seen(micros)

  /** Called by generated code. The arguments are the children from `problem` on. */
  def refused(
      problem: UTF8String,
      reason: UTF8String,
      place: InternalRow,
      record: InternalRow
  ): ArrayData = {
    def texts = RecordMetadata.texts(place, metadata.dataType.asInstanceOf[StructType])
    instead match {
      case AdmitRecord.Terminate   => throw new BadRecord(reason.toString, texts)
      case AdmitRecord.Ignore      =>
      case AdmitRecord.Send(topic) => topic.send(record, texts, "error" -> reason.toString)
    }
    counts.add(problem.toString)
    AdmitRecord.Nothing
  }

  override def eval(input: InternalRow): Any = problem.eval(input) match {
    case null =>
      time.map(_.eval(input)).foreach { case micros: Long => seen(micros); case _ => () }
      admitted(row.eval(input).asInstanceOf[InternalRow])
    case problemText: UTF8String =>
      val Seq(reason, place, record) = children.slice(2, 5).map(_.eval(input))
      refused(problemText, reason.asInstanceOf[UTF8String], place.asInstanceOf[InternalRow], record.asInstanceOf[InternalRow])
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("admit", this, classOf[AdmitRecord].getName)
    val Seq(good, wrong, reason, place, record) = children.take(5).map(_.genCode(ctx))
    val times = time.map(timeCode(ctx, self, _)).getOrElse(EmptyBlock)
    val row = classOf[InternalRow].getName
    ExprCode(
      code"""
            |${wrong.code}
            |${classOf[ArrayData].getName} ${ev.value};
            |if (${wrong.isNull}) {
            |  $times
            |  ${good.code}
            |  ${ev.value} = $self.admitted(${good.value});
            |} else {
            |  ${reason.code}
            |  ${place.code}
            |  ${record.code}
            |  ${ev.value} = $self.refused(${wrong.value}, ${reason.value}, ($row) ${place.value}, ($row) ${record.value});
            |}
            |""".stripMargin,
      FalseLiteral,
      ev.value
    )
  }

  /** Code that reports a time older than all before it: a comparison for most rows. */
  private def timeCode(ctx: CodegenContext, self: String, time: Expression): Block = {
    val oldest = ctx.addMutableState("long", "oldest", name => s"$name = Long.MAX_VALUE;", forceInline = true)
    val micros = time.genCode(ctx)
    code"""
          |${micros.code}
          |if (!${micros.isNull} && ${micros.value} < $oldest) {
          |  $oldest = ${micros.value};
          |  $self.seen(${micros.value});
          |}
          |""".stripMargin
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): AdmitRecord =
    copy(children = newChildren)
}

/** Its input, unchanged: it brings the counts of a source to where the watermark node is planned. */
private[spark] final case class CountingEventTime(child: Expression, counts: RowCounts)
    extends UnaryExpression
    with CountsRows {
  // So that the optimizer leaves it where it is.
  override lazy val deterministic: Boolean = false
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_counting"
  override protected def stringArgs: Iterator[Any] = Iterator(child)
  override def eval(input: InternalRow): Any = child.eval(input)
  override def genCode(ctx: CodegenContext): ExprCode = child.genCode(ctx)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)
  override protected def withNewChildInternal(newChild: Expression): CountingEventTime = copy(child = newChild)
}

/** `headrace_of_batch(number)`: a BIGINT that is one and the same for all rows of a batch, unchanged.
  *
  * Spark writes constants into the code that it generates. One that is another in each batch, as the batch's time is, has the
  * whole stage compiled anew each time, and never run long enough to be fast. This one is handed to the code from outside.
  */
private[spark] final case class OfBatch(child: Expression) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def nullable: Boolean = false
  // Else the optimizer would put the number in its place.
  override lazy val foldable: Boolean = false
  override def prettyName: String = "headrace_of_batch"
  override def eval(input: InternalRow): Any = child.eval(input)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val number = ctx.addReferenceObj("ofBatch", child.eval())
    ev.copy(code = code"long ${ev.value} = $number;", isNull = FalseLiteral)
  }
  override protected def withNewChildInternal(newChild: Expression): OfBatch = copy(child = newChild)
}

/** `headrace_time_text(time TIMESTAMP, 'layout', precise, 'zone')`: a STRING, see [[TimeText.written]]. */
private[spark] final case class WriteTime(child: Expression, layout: TimeText.Layout, precise: Boolean, zone: String)
    extends UnaryExpression {
  override def dataType: DataType = StringType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "headrace_time_text"

  /** Called by generated code, which holds this expression. */
  def text(micros: Long): UTF8String = TimeText.written(micros, layout, precise, zone)

  override protected def nullSafeEval(micros: Any): Any = text(micros.asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("writeTime", this, classOf[WriteTime].getName)
    defineCodeGen(ctx, ev, micros => s"$self.text($micros)")
  }

  override protected def withNewChildInternal(newChild: Expression): WriteTime = copy(child = newChild)
}

private[spark] object AdmitRecord {

  /** Treatment of a bad record. */
  sealed trait Instead extends Serializable
  case object Terminate extends Instead
  case object Ignore extends Instead
  final case class Send(topic: SideTopic) extends Instead

  object Instead {
    def of(text: String): Instead = text match {
      case "terminate" => Terminate
      case "ignore"    => Ignore
      case id          => Send(SideTopic.of(id))
    }
  }

  private val Nothing: ArrayData = new GenericArrayData(Array.empty[Any])
}

/** Position of a record in its store. */
private[spark] object RecordMetadata {

  /** The fields of `metadata` that are not NULL, by name. */
  def texts(metadata: InternalRow, fields: StructType): Seq[(String, String)] =
    fields.zipWithIndex.collect {
      case (field, index) if !metadata.isNullAt(index) => field.name -> metadata.get(index, field.dataType).toString
    }
}

/** Ends a query at a record. The message is for the driver: JSON, in base64 since messages are quoted on their way. */
private[spark] final class BadRecord(reason: String, metadata: Seq[(String, String)])
    extends RuntimeException(BadRecord.message(reason, metadata))

private[spark] object BadRecord {
  private val mapper = new ObjectMapper()

  private def message(reason: String, metadata: Seq[(String, String)]): String = {
    val facts = mapper.createObjectNode().put("reason", reason)
    val place = facts.putObject("metadata")
    metadata.foreach { case (name, text) => place.put(name, text) }
    s"HEADRACE_BAD_RECORD:${java.util.Base64.getEncoder.encodeToString(mapper.writeValueAsBytes(facts))}:"
  }
}

/** The expressions as SQL functions. */
private[spark] object RecordFunctions {
  type Description = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression)

  val all: Seq[Description] = Seq(
    function("headrace_from_json") { case Seq(record, Constant(kind: UTF8String), Constant(times: UTF8String)) =>
      read(record, kind, JsonFormat(TimeText.Layout.named(times)))
    },
    function("headrace_from_csv") {
      case Seq(record, Constant(kind: UTF8String), Constant(times: UTF8String), Constant(delimiter: UTF8String)) =>
        read(record, kind, CsvFormat(delimiter.toString.head, TimeText.Layout.named(times)))
    },
    function("headrace_from_avro") { case Seq(record, Constant(kind: UTF8String), Constant(registry: UTF8String)) =>
      read(record, kind, AvroFormat(registry.toString match {
        case AvroFiles.Registry => None
        case name               => Some(SchemaRegistry.of(name))
      }))
    },
    function("headrace_avro_records") { case Seq(block, count, schema) => AvroRecords(block, count, schema) },
    function("headrace_to_avro") { case Seq(row, Constant(schema: UTF8String), Constant(id: Int)) =>
      WriteAvro(row, schema.toString, id)
    },
    function("headrace_from_protobuf") {
      case Seq(record, Constant(kind: UTF8String), Constant(registry: UTF8String), Constant(message: UTF8String), Constant(set: UTF8String)) =>
        read(record, kind, ProtobufFormat(Option.when(set.toString.isEmpty)(SchemaRegistry.of(registry.toString)), message.toString, set.toString))
    },
    function("headrace_to_protobuf") {
      case Seq(row, Constant(set: UTF8String), Constant(message: UTF8String), Constant(prefix: Array[Byte])) =>
        WriteProtobuf(row, set.toString, message.toString, prefix.toSeq)
    },
    function("headrace_admit") { case arguments :+ Constant(instead: UTF8String) if arguments.size == 5 || arguments.size == 6 =>
      AdmitRecord(arguments, AdmitRecord.Instead.of(instead.toString), RowCounts.registered())
    },
    function("headrace_measured") { case Seq(value, key, Constant(name: UTF8String)) =>
      MeasuredRecord(value, key, name.toString, RowCounts.registered())
    },
    function("headrace_time_text") {
      case Seq(time, Constant(layout: UTF8String), Constant(precise: Boolean), Constant(zone: UTF8String)) =>
        WriteTime(Cast(time, TimestampType), TimeText.Layout.named(layout), precise, zone.toString)
    },
    function("headrace_time") { case Seq(time, Constant(digits: Int), Constant(safe: Boolean)) =>
      BoundedTime(time, digits, safe)
    },
    function("headrace_json") { case Seq(text, path, asked) => JsonFunction(text, path, asked) },
    function("headrace_call") { case Constant(id: UTF8String) +: arguments =>
      UserFunctionCall(UserFunctions.get(id.toString), arguments)(RowCounts.registered())
    },
    function("headrace_current_watermark") { case Seq() => CurrentWatermark() },
    function("headrace_rows_of_max") { case Seq(value, row) => RowsOfExtreme(value, row, greatest = true) },
    function("headrace_rows_of_min") { case Seq(value, row) => RowsOfExtreme(value, row, greatest = false) },
    function("headrace_of_batch") { case Seq(number) => OfBatch(number) },
    function("headrace_printf") { case arguments if arguments.nonEmpty => FormatText(arguments) },
    static("headrace_truncate", "truncated", StringType, StringType, IntegerType),
    static("headrace_url_encode", "urlEncoded", StringType, StringType),
    static("headrace_url_decode", "urlDecoded", StringType, StringType),
    static("headrace_inet_aton", "addressNumber", LongType, StringType),
    static("headrace_inet_ntoa", "addressText", StringType, LongType),
    static("headrace_hmac", "keyedHash", StringType, StringType, StringType, StringType),
    static("headrace_json_kind", "jsonKind", StringType, StringType),
    static("headrace_json_quote", "jsonQuoted", StringType, StringType),
    static("headrace_json_unquote", "jsonUnquoted", StringType, StringType),
    static("headrace_regexp_count", "matchCount", IntegerType, StringType, StringType),
    static("headrace_regexp_instr", "matchPlace", IntegerType, StringType, StringType),
    static("headrace_regexp_substr", "firstMatch", StringType, StringType, StringType),
    static("headrace_regexp_extract_all", "allMatches", ArrayType(StringType), StringType, StringType, IntegerType),
    static("headrace_similar", "similarPattern", StringType, StringType, StringType),
    static("headrace_percentile", "percentile", DoubleType, ArrayType(DoubleType), DoubleType),
    static("headrace_weighted_percentile", "weightedPercentile", DoubleType, ArrayType(Weighted), DoubleType)
  )

  private def Weighted: DataType = new StructType().add("f0", DoubleType).add("f1", LongType)

  /** A function that is a method of [[ScalarFunctions]]. */
  private def static(name: String, method: String, result: DataType, inputs: DataType*): Description =
    function(name) { case arguments if arguments.size == inputs.size =>
      val typed = arguments.zip(inputs).map { case (argument, kind) => Cast(argument, kind) }
      StaticInvoke(ScalarFunctions.getClass, result, method, typed, inputs)
    }

  private def read(record: Expression, kind: UTF8String, format: RecordFormat): Expression =
    ReadRecord(record, CatalystSqlParser.parseDataType(kind.toString), format, RowCounts.registered())

  private object Constant {
    def unapply(expression: Expression): Option[Any] = Option.when(expression.foldable)(expression.eval())
  }

  private def function(name: String)(build: PartialFunction[Seq[Expression], Expression]): Description = {
    def refuse(arguments: Seq[Expression]): Expression =
      throw new IllegalArgumentException(s"found ${arguments.size} arguments that $name does not take")
    (FunctionIdentifier(name), new ExpressionInfo(getClass.getName, name), build.applyOrElse(_, refuse))
  }
}
