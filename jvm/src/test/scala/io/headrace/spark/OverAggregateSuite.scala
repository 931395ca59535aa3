package io.headrace.spark

import java.sql.Timestamp
import java.util.Arrays

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, unix_millis}

import SparkTesting._

class OverAggregateSuite extends PatientSuite {
  import spark.implicits._
  import OverAggregateSuite._

  private final class Events(delay: String = "0 seconds") {
    val input: MemoryStream[OverEvent] = MemoryStream[OverEvent](spark)

    def df: DataFrame = input.toDF().withWatermark("ts", delay)

    def add(key: String, from: Double, values: Option[Int]*): Unit =
      input.addData(values.zipWithIndex.map { case (value, second) => event(key, from + second, second, value) })

    /** The watermark goes to `seconds`. */
    def tick(seconds: Double): Unit = input.addData(event(Tick, seconds, 0, None))
  }

  private def over(df: DataFrame, calls: Seq[OverCall], keys: Seq[String] = Seq("k"), ttlMs: Long = 0): DataFrame = {
    // What calls and keys read are columns beside the row.
    val read = calls.flatMap(_.arguments.asScala).distinct
    val prepared = df.select(Seq(col("*")) ++ keys.map(key => col(key).as(s"key_$key")) ++ read.map(name => argument(name).as(name)): _*)
    OverAggregate.over(prepared, "ts", Arrays.asList(keys.map(key => s"key_$key"): _*), Arrays.asList(calls: _*), ttlMs)
  }

  private def argument(name: String) = name match {
    case "a_v"       => col("v")
    case "a_text"    => col("text")
    case "a_decimal" => expr("CAST(v AS DECIMAL(10, 2))")
    case "a_double"  => expr("CAST(v AS DOUBLE)")
    case "a_id"      => col("id")
  }

  /** Results of a key by the row's id, without the tick. */
  private def results(rows: Seq[Row], calls: Seq[OverCall]): Seq[(String, Long, Int, Seq[Any])] =
    rows.filter(_.getAs[String]("k") != Tick).map { row =>
      (row.getAs[String]("k"), row.getAs[Timestamp]("ts").getTime, row.getAs[Int]("id"), calls.map(call => row.getAs[Any](call.name)))
    }

  for (seed <- 1 to amount(few = 1, all = 6)) test(s"results are those of the definition, in disorder, with ties and late rows, cut and restarted (seed $seed)") {
    val random = new Random(seed)
    val events = new Events("5 seconds")
    val rows = Seq.tabulate(400) { id =>
      val (key, value) = (Seq("a", "a", "a", "b", null)(random.nextInt(5)), Option.when(random.nextInt(4) > 0)(random.nextInt(40) - 20))
      event(key, 1000 + random.nextInt(200) + id / 1000.0, id, value)
    }
    val byRows = Calls.map(call => call("rows", random))
    val byTime = Calls.map(call => call("range", random)).filterNot(call => OfOneRow(call.function))
    // Rows of one time are in each other's frames, whichever came first; by rows each has a time of its own.
    def seconds = events.input.toDF().withColumn("ts", expr("date_trunc('SECOND', ts)")).withWatermark("ts", "5 seconds")
    val emitted = Seq(ArrayBuffer.empty[Row], ArrayBuffer.empty[Row])
    Seq((byRows, events.df), (byTime, seconds)).zip(emitted).foreach { case ((calls, df), rowsOut) =>
      val arriving = rows.map(row => (row.ms + random.nextInt(3900), row)).sortBy(_._1).map(_._2)
      val place = newCheckpoint()
      var (left, watermarkMs) = (arriving, 0L)
      while (left.nonEmpty) rowsOut ++= running(over(df, calls), place) { query =>
        for (_ <- 0 to 1 + random.nextInt(2) if left.nonEmpty) {
          val (batch, rest) = left.splitAt(1 + random.nextInt(160))
          left = rest
          val late = Option.when(watermarkMs > 0)(OverEvent("a", new Timestamp(watermarkMs - 2000 - random.nextInt(9000)), -1, Some(1), ""))
          events.input.addData(random.shuffle(batch ++ late))
          query.rows()
          watermarkMs = math.max(watermarkMs, batch.map(_.ms).max - 5000)
        }
        query.came
      }
      rowsOut ++= running(over(df, calls), place) { query =>
        events.tick(100000)
        query.rows()
      }
    }
    for (((calls, out), isTied) <- Seq(byRows, byTime).zip(emitted).zip(Seq(false, true)); key <- Seq("a", "b", null)) {
      val partition = rows.filter(_.k == key).map(row => if (isTied) row.copy(ts = new Timestamp(row.ms / 1000 * 1000)) else row).sortBy(_.ms)
      val expected = partition.indices.map { at =>
        (key, partition(at).ms, partition(at).id, calls.map(defined(_, partition, at)))
      }
      val received = results(out.toSeq, calls).filter(_._1 == key)
      assertEquals(received.map(_._2), received.map(_._2).sorted, "in the order of time")
      assertEquals(received.sortBy(_._3), expected.sortBy(_._3), s"seed $seed, key $key")
    }
  }

  test("a row waits until the watermark has passed its millisecond, since another row of its time is in its frame") {
    val events = new Events
    val calls = Seq(sum("range", -1), count("range", -1))
    running(over(events.df, calls)) { query =>
      events.add("a", 10, Some(1))
      assertEquals(results(query.rows(), calls), Nil)
      events.add("a", 10, Some(2))
      assertEquals(results(query.rows(), calls), Nil)
      events.tick(10.001)
      assertEquals(results(query.rows(), calls).map(_._4), Seq[Seq[Any]](Seq(3L, 2L), Seq(3L, 2L)))
      // The watermark has passed this one.
      events.add("a", 10, Some(4))
      events.add("a", 11, Some(8))
      events.tick(100)
      assertEquals(results(query.rows(), calls).map(_._4).drop(2), Seq[Seq[Any]](Seq(11L, 3L)))
    }
  }

  test("a range has its rows to the microsecond, and a NULL is no value") {
    val events = new Events
    val calls = Seq(sum("range", 1000), count("range", 1000), call("COUNT", "range", 1000), call("MIN", "range", 1000, "a_v"), call("FIRST_VALUE", "range", 1000, "a_v"))
    running(over(events.df, calls, keys = Nil)) { query =>
      events.add("a", 10, None)
      events.add("b", 10.5, Some(5))
      events.input.addData(OverEvent("a", micros(11000000), 1, Some(1), ""), OverEvent("a", micros(11000001), 2, Some(2), ""))
      events.add("a", 13, None)
      events.tick(100)
      assertEquals(
        results(query.rows(), calls).map(_._4),
        Seq[Seq[Any]](
          Seq(null, 0L, 1L, null, null), Seq(5L, 1L, 2L, 5, null), Seq(6L, 2L, 3L, 1, null), Seq(8L, 3L, 3L, 1, 5), Seq(null, 0L, 1L, null, null)))
    }
  }

  test("a key without rows in its frames is forgotten, and so is one that was quiet for its time to live") {
    def left(calls: Seq[OverCall], ttlMs: Long): Long = {
      val events = new Events
      running(over(events.df, calls, ttlMs = ttlMs)) { query =>
        events.input.addData((0 until 200).flatMap(key => (0 until 3).map(second => event(s"k$key", 10.0 + second, second, Some(1)))))
        Seq(11.5, 50, 200, 500, 1000).foreach { seconds =>
          events.tick(seconds)
          query.rows()
        }
        query.query.lastProgress.stateOperators.head.numRowsTotal
      }
    }
    // The groups' indexes stay, and the last tick.
    val few = 64 * 2 + 4
    assert(left(Seq(sum("range", 1000), call("MAX", "range", 30000, "a_v")), 0) <= few)
    assert(left(Seq(sum("rows", -1)), 20000) <= few)
    assert(left(Seq(sum("rows", 2)), 20000) <= few)
    assert(left(Seq(sum("rows", 2)), 0) >= 200)
    assert(left(Seq(sum("range", 1000), sum("range", -1)), 0) >= 200)
  }

  test("a key that was quiet for its time to live begins anew, and another does not") {
    val events = new Events
    val calls = Seq(sum("rows", -1), lag(1))
    running(over(events.df, calls, ttlMs = 10000)) { query =>
      Seq(10, 19.999, 29.999, 35).foreach(seconds => events.add("a", seconds, Some(1)))
      events.tick(100)
      query.rows()
      events.add("a", 101, Some(1))
      events.tick(200)
      assertEquals(
        results(query.rows(), calls).map(_._4),
        Seq[Seq[Any]](Seq(1L, null), Seq(2L, 1), Seq(1L, null), Seq(2L, 1), Seq(1L, null)))
    }
  }

  test("LAG has a default of the current row where there is no row, and not where the row has NULL") {
    val events = new Events
    val calls = Seq(lag(2), lag(0), OverCall("otherwise", "LAG", Arrays.asList("a_v", "a_id"), "INT", "rows", 1))
    running(over(events.df, calls)) { query =>
      events.add("a", 10, Some(7), None, Some(8))
      events.tick(100)
      assertEquals(results(query.rows(), calls).map(_._4), Seq[Seq[Any]](Seq(null, 7, 0), Seq(null, null, 7), Seq(7, 8, null)))
    }
  }

  test("results are rows with a time, over which there may be others") {
    val events = new Events
    val calls = Seq(sum("rows", -1))
    val inner = over(events.df, calls).withColumnRenamed(calls.head.name, "total")
    val outer = OverAggregate.over(inner.withColumn("a_total", col("total")), "ts", Arrays.asList(), Arrays.asList(OverCall("largest", "MAX", Arrays.asList("a_total"), "BIGINT", "rows", -1)), 0)
    running(outer.select(unix_millis(col("ts")), col("k"), col("total"), col("largest"))) { query =>
      events.add("a", 10, Some(3), Some(4))
      events.add("b", 10.5, Some(5), Some(-4))
      events.tick(20)
      events.tick(100)
      val received = query.rows().filter(_.getString(1) != Tick).map(_.toSeq)
      assertEquals(received, Seq[Seq[Any]](Seq(10000L, "a", 3L, 3L), Seq(10500L, "b", 5L, 5L), Seq(11000L, "a", 7L, 7L), Seq(11500L, "b", 1L, 7L)))
    }
  }

  test("arguments that do not fit together are refused") {
    val events = new Events
    def refused(calls: OverCall*)(part: String): Unit = {
      val error = intercept[IllegalArgumentException](over(events.df, calls))
      assert(error.getMessage.contains(part), error.getMessage)
    }
    refused(call("MEDIAN", "rows", -1, "a_v"))("expected a function over a frame, found MEDIAN")
    refused(call("SUM", "groups", -1, "a_v"))("expected a frame of rows or of a range, found groups")
    refused(call("SUM", "rows", -2, "a_v"))("starts before the current row, found -2")
    refused(call("LAG", "range", 1, "a_v"))("expected a number of rows for LAG")
    val error = intercept[IllegalArgumentException](over(events.input.toDF(), Seq(sum("rows", -1))))
    assert(error.getMessage.contains("expected a TIMESTAMP with a watermark"), error.getMessage)
  }

  test("state of other calls is refused, not misread") {
    val events = new Events
    val checkpoint = newCheckpoint()
    def run(calls: Seq[OverCall]): Unit = running(over(events.df, calls), checkpoint) { query =>
      events.add("a", 10, Some(1))
      events.tick(100)
      query.rows()
    }
    run(Seq(sum("rows", -1)))
    val error = intercept[Exception](run(Seq(sum("rows", 1))))
    assert(causes(error).exists(_.contains("state of other columns")), causes(error))
  }
}

object OverAggregateSuite {
  private val Tick = "~tick"

  final case class OverEvent(k: String, ts: Timestamp, id: Int, v: Option[Int], text: String) {
    def ms: Long = ts.getTime
  }

  private def event(key: String, seconds: Double, id: Int, value: Option[Int]): OverEvent =
    OverEvent(key, new Timestamp(math.round(seconds * 1000)), id, value, s"$id " + "x" * (id % 200))

  private def micros(of: Long): Timestamp = {
    val timestamp = new Timestamp(of / 1000)
    timestamp.setNanos((of % 1000000 * 1000).toInt)
    timestamp
  }

  private val Types = Map("a_v" -> "INT", "a_id" -> "INT", "a_text" -> "STRING", "a_decimal" -> "DECIMAL(10, 2)", "a_double" -> "DOUBLE")

  private def call(function: String, unit: String, preceding: Long, arguments: String*): OverCall = {
    val kind = (function, arguments.headOption) match {
      case ("COUNT", _)                => "BIGINT"
      case ("SUM", Some("a_decimal"))  => "DECIMAL(38, 2)"
      case ("AVG", Some("a_decimal"))  => "DECIMAL(38, 6)"
      case ("SUM", Some("a_double"))   => "DOUBLE"
      case ("SUM", _)                  => "BIGINT"
      case ("AVG", _)                  => "DOUBLE"
      case (_, argument)               => argument.fold("INT")(Types)
    }
    val name = s"${function}_${unit}_${preceding}_${arguments.mkString("_")}".toLowerCase.replace("-", "all")
    OverCall(name, function, Arrays.asList(arguments: _*), kind, unit, preceding)
  }

  private def sum(unit: String, preceding: Long): OverCall = call("SUM", unit, preceding, "a_v")
  private def count(unit: String, preceding: Long): OverCall = call("COUNT", unit, preceding, "a_v")
  private def lag(rows: Long): OverCall = call("LAG", "rows", rows, "a_v")

  /** A call over a frame of a unit, with a beginning that is drawn. */
  private type Drawn = (String, Random) => OverCall

  private def preceding(unit: String, random: Random): Long =
    if (unit == "rows") Seq(-1L, 0L, 1L, 7L, 100L, 150L)(random.nextInt(6))
    else Seq(-1L, 0L, 1000L, 7000L, 100000L, 150000L)(random.nextInt(6))

  private val Calls: Seq[Drawn] = Seq(
    ("COUNT", Nil),
    ("COUNT", Seq("a_v")),
    ("SUM", Seq("a_v")),
    ("SUM", Seq("a_decimal")),
    ("SUM", Seq("a_double")),
    ("AVG", Seq("a_v")),
    ("AVG", Seq("a_decimal")),
    ("MIN", Seq("a_v")),
    ("MAX", Seq("a_v")),
    ("MAX", Seq("a_text")),
    ("FIRST_VALUE", Seq("a_v")),
    ("LAST_VALUE", Seq("a_v"))
  ).map { case (function, arguments) => (unit: String, random: Random) => call(function, unit, preceding(unit, random), arguments: _*) } :+
    ((_: String, random: Random) => lag(random.nextInt(90).toLong))

  /** What a call means for the row `at` of a partition in the order of time. */
  private def defined(call: OverCall, partition: Seq[OverEvent], at: Int): Any = {
    val row = partition(at)
    val frame =
      if (call.unit == "rows") partition.slice(if (call.preceding < 0) 0 else at - call.preceding.toInt, at + 1)
      else partition.filter(other => other.ms <= row.ms && (call.preceding < 0 || other.ms >= row.ms - call.preceding))
    val values = frame.flatMap(_.v)
    val argument = if (call.arguments.isEmpty) "" else call.arguments.get(0)
    def decimal(scale: Int, value: BigDecimal) = value.setScale(scale, BigDecimal.RoundingMode.HALF_UP).bigDecimal
    (call.function, argument) match {
      case ("COUNT", "")             => frame.size.toLong
      case ("COUNT", _)              => values.size.toLong
      case ("MAX", "a_text")         => frame.map(_.text).max
      case ("FIRST_VALUE", _)        => frame.head.v.map(Int.box).orNull
      case ("LAST_VALUE", _)         => frame.last.v.map(Int.box).orNull
      case ("LAG", _)                => partition.lift(at - call.preceding.toInt).flatMap(_.v).map(Int.box).orNull
      case _ if values.isEmpty       => null
      case ("SUM", "a_v")            => values.sum.toLong
      case ("SUM", "a_decimal")      => decimal(2, BigDecimal(values.sum))
      case ("SUM", _)                => values.sum.toDouble
      case ("AVG", "a_decimal")      => decimal(6, BigDecimal(values.sum) / values.size)
      case ("AVG", _)                => values.sum.toDouble / values.size
      case ("MIN", _)                => values.min
      case ("MAX", _)                => values.max
    }
  }

  /** Functions whose result depends on which of several rows of one time came first. */
  private val OfOneRow = Set("FIRST_VALUE", "LAST_VALUE", "LAG")
}
