package io.headrace.spark

import java.util.LinkedHashMap

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.matching.Regex

import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonProcessingException, StreamReadConstraints}
import com.fasterxml.jackson.core.JsonToken._
import org.apache.spark.sql.catalyst.expressions.{Expression, TernaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** `headrace_json(text, path, asked)`: what `asked` says of the items at a path of a JSON text, as `engine/views/json_functions.py` does.
  *
  * `value` is a scalar as text, `query` an object or array as JSON, both NULL where there is none; `exists` is an empty text or NULL;
  * `query_conditional` is in an array unless it is one, `query_unconditional` always. With `_state` at the end, they are `found`, `empty`
  * or `error`. Numbers keep the digits with which they are written.
  */
private[spark] final case class JsonFunction(first: Expression, second: Expression, third: Expression) extends TernaryExpression {
  override def dataType: DataType = StringType
  override def nullable: Boolean = true
  override def prettyName: String = "headrace_json"

  @transient private var last: (UTF8String, Option[JsonPath]) = _

  /** Called by generated code, which holds this expression. */
  def answer(text: UTF8String, path: UTF8String, asked: UTF8String): UTF8String = {
    if (last == null || last._1 != path) last = path.clone() -> JsonPath.parse(path.toString)
    JsonFunction.answer(text.toString, last._2, asked.toString)
  }

  override protected def nullSafeEval(text: Any, path: Any, asked: Any): Any =
    answer(text.asInstanceOf[UTF8String], path.asInstanceOf[UTF8String], asked.asInstanceOf[UTF8String])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("jsonFunction", this, classOf[JsonFunction].getName)
    nullSafeCodeGen(ctx, ev, (text, path, asked) =>
      s"${ev.value} = $self.answer($text, $path, $asked); ${ev.isNull} = ${ev.value} == null;")
  }

  override protected def withNewChildrenInternal(first: Expression, second: Expression, third: Expression): JsonFunction =
    copy(first, second, third)
}

private[spark] object JsonFunction {
  import JsonPath._

  /** A JSON value; literals and numbers stand as they are written. */
  private sealed trait Json
  private final case class Bare(text: String) extends Json
  private final case class Text(text: String) extends Json
  private final case class Items(items: Seq[Json]) extends Json
  private final case class Members(members: LinkedHashMap[String, Json]) extends Json

  /** Case of ON ERROR: no JSON, no path, or no item of the requested kind. */
  private object NoAnswer extends RuntimeException(null, null, false, false)

  private val Null = Bare("null")
  private val unlimited = StreamReadConstraints.builder().maxNumberLength(Int.MaxValue).maxStringLength(Int.MaxValue)
    .maxNameLength(Int.MaxValue).build()
  private val factory = JsonFactory.builder().streamReadConstraints(unlimited).build()

  private def answer(text: String, path: Option[JsonPath], asked: String): UTF8String = {
    val state = asked.endsWith("_state")
    val kind = asked.stripSuffix("_state")
    val result =
      try {
        val known = path.getOrElse(throw NoAnswer)
        val items = known.steps.foldLeft(Seq(parsed(text)))((items, step) => items.flatMap(parts(_, step, known.strict)))
        val answer = if (items.isEmpty) None else if (kind == "exists") Some("") else written(items, kind, known.several)
        if (answer.exists(hasHalfAPair)) throw NoAnswer
        if (state) Some(if (items.isEmpty) "empty" else "found") else answer
      } catch { case NoAnswer => Option.when(state)("error") }
    result.map(UTF8String.fromString).orNull
  }

  /** `object`, `array` or `scalar`; None for a text that is not JSON. */
  def kind(text: String): Option[String] =
    try parsed(text) match {
        case _: Members => Some("object")
        case _: Items   => Some("array")
        case _          => Some("scalar")
      }
    catch { case NoAnswer => None }

  /** A text as a JSON string in ASCII, as Flink writes it: a solidus is escaped too. */
  def asciiQuoted(text: String): String =
    quoted(text).map {
      case '/'            => "\\/"
      case c if c > '~'   => f"\\u${c.toInt}%04x"
      case c              => c.toString
    }.mkString

  /** The text that a JSON string contains; None for a text that is not a JSON string. */
  def unquoted(text: String): Option[String] =
    if (!text.startsWith("\"") || !text.endsWith("\"")) None
    else
      try Some(parsed(text)).collect { case Text(content) if !hasHalfAPair(content) => content }
      catch { case NoAnswer => None }

  private def written(items: Seq[Json], kind: String, several: Boolean): Option[String] = {
    val value = if (several || items.size > 1) Items(items) else items.head
    (kind, value) match {
      case ("query_conditional", whole: Items)                => Some(written(whole))
      case ("query_conditional" | "query_unconditional", item) => Some(written(Items(Seq(item))))
      case _                                                  => single(items, kind == "query", several)
    }
  }

  private def single(items: Seq[Json], query: Boolean, several: Boolean): Option[String] = items match {
    case _ if query && several              => Some(written(Items(items)))
    case Seq(item @ (_: Items | _: Members)) if query => Some(written(item))
    case Seq(Null) if !query                => None
    case Seq(Bare(text)) if !query          => Some(text)
    case Seq(Text(text)) if !query          => Some(text)
    case _                                  => throw NoAnswer
  }

  private def parsed(text: String): Json = {
    val parser = factory.createParser(text)
    try {
      if (parser.nextToken() == null) throw NoAnswer
      val value = read(parser)
      if (parser.nextToken() != null) throw NoAnswer
      value
    } catch { case _: JsonProcessingException => throw NoAnswer }
    finally parser.close()
  }

  private def read(parser: JsonParser): Json = parser.currentToken match {
    case START_OBJECT =>
      val members = new LinkedHashMap[String, Json]
      var name = parser.nextFieldName()
      while (name != null) {
        parser.nextToken()
        members.put(name, read(parser))
        name = parser.nextFieldName()
      }
      Members(members)
    case START_ARRAY =>
      val items = ArrayBuffer.empty[Json]
      while (parser.nextToken() ne END_ARRAY) items += read(parser)
      Items(items.toSeq)
    case VALUE_STRING => Text(parser.getText)
    case _            => Bare(parser.getText)
  }

  /** Items that a step selects in an item. A lax path treats an array as its elements and a single value as an array,
    * and misses without error.
    */
  private def parts(item: Json, step: Step, strict: Boolean): Seq[Json] = (step, item) match {
    case (Member(name), Members(members)) if members.containsKey(name) => Seq(members.get(name))
    case (AllMembers, Members(members))                                => members.values.asScala.toSeq
    case (Member(_) | AllMembers, Items(items)) if !strict             =>
      items.collect { case members: Members => members }.flatMap(parts(_, step, strict = false))
    case (Element(place), Items(items)) if place < items.size          => Seq(items(place))
    case (AllElements, Items(items))                                   => items
    case (Element(_), Items(_)) if !strict                             => Nil
    case (Element(_) | AllElements, _) if !strict                      => parts(Items(Seq(item)), step, strict = false)
    case _                                                             => if (strict) throw NoAnswer else Nil
  }

  /** JSON without blanks. */
  private def written(value: Json): String = value match {
    case Bare(text)       => text
    case Text(text)       => quoted(text)
    case Items(items)     => items.map(written).mkString("[", ",", "]")
    case Members(members) => members.asScala.map { case (name, item) => s"${quoted(name)}:${written(item)}" }.mkString("{", ",", "}")
  }

  private def quoted(text: String): String =
    text.flatMap {
      case '"'             => "\\\""
      case '\\'            => "\\\\"
      case '\b'            => "\\b"
      case '\f'            => "\\f"
      case '\n'            => "\\n"
      case '\r'            => "\\r"
      case '\t'            => "\\t"
      case c if c < ' '    => f"\\u${c.toInt}%04x"
      case c               => c.toString
    }.mkString("\"", "", "\"")

  private def hasHalfAPair(text: String): Boolean =
    text.codePoints.anyMatch(code => code >= Character.MIN_SURROGATE && code <= Character.MAX_SURROGATE)
}

/** A path: `[lax | strict] $`, then `.name`, `."name"`, `['name']`, `[0]`, `[*]` or `.*`. `core/json_path.py` reads the same. */
private[spark] final case class JsonPath(strict: Boolean, steps: Seq[JsonPath.Step]) {
  val several: Boolean = steps.exists(step => step == JsonPath.AllMembers || step == JsonPath.AllElements)
}

private[spark] object JsonPath {
  sealed trait Step
  final case class Member(name: String) extends Step
  final case class Element(place: Int) extends Step
  case object AllMembers extends Step
  case object AllElements extends Step

  private val Path = "(?s)(?:(lax|strict)\\s+)?\\$(.*)".r
  private val OneStep =
    "\\.(\\*)|\\.([^.\\[\\]*\"']+)|\\.\"([^\"]*)\"|\\['([^']*)'\\]|\\[\"([^\"]*)\"\\]|\\[([0-9]{1,9})\\]|\\[(\\*)\\]".r

  def parse(text: String): Option[JsonPath] = text.dropWhile(_ == ' ').reverse.dropWhile(_ == ' ').reverse match {
    case Path(mode, rest) =>
      val steps = OneStep.findAllMatchIn(rest).toSeq
      Option.when(steps.map(_.matched).mkString == rest)(JsonPath(mode == "strict", steps.map(step)))
    case _ => None
  }

  private def step(token: Regex.Match): Step =
    if (token.group(1) != null) AllMembers
    else if (token.group(7) != null) AllElements
    else if (token.group(6) != null) Element(token.group(6).toInt)
    else Member((2 to 5).map(token.group).find(_ != null).get)
}
