package io.headrace.spark

import java.sql.Timestamp
import java.util.{ArrayList, List => JavaList}
import java.util.Arrays.asList

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types.TimestampType

import SparkTesting._

class ChangelogAggregateSuite extends PatientSuite {
  import spark.implicits._
  import ChangelogAggregateSuite._

  private def call(name: String, function: String, arguments: Seq[String], kind: String, distinct: Boolean = false) =
    AggregateCall(name, function, arguments.asJava, distinct, kind)

  private def calls(all: AggregateCall*): JavaList[AggregateCall] = new ArrayList(all.asJava)

  /** Calls whose results do not depend on the order of the rows. */
  private val orderFree: Seq[AggregateCall] = Seq(
    call("rows", "COUNT", Nil, "BIGINT"),
    call("ints", "COUNT", Seq("i"), "BIGINT"),
    call("distinct_pairs", "COUNT", Seq("i", "s"), "BIGINT", distinct = true),
    call("sum_i", "SUM", Seq("i"), "BIGINT"),
    call("sum_d", "SUM", Seq("d"), "DOUBLE"),
    call("sum_m", "SUM", Seq("m"), "DECIMAL(38,2)"),
    call("sum_distinct", "SUM", Seq("i"), "BIGINT", distinct = true),
    call("sum_even", "SUM", Seq("even"), "BIGINT"),
    call("avg_i", "AVG", Seq("i"), "DOUBLE"),
    call("avg_m", "AVG", Seq("m"), "DECIMAL(38,6)"),
    call("min_s", "MIN", Seq("s"), "STRING"),
    call("max_d", "MAX", Seq("d"), "DOUBLE"),
    call("max_t", "MAX", Seq("t"), "TIMESTAMP"),
    call("min_l", "MIN", Seq("l"), "ARRAY<INT>"),
    call("stddev", "STDDEV", Seq("d"), "DOUBLE"),
    call("var_pop", "VAR_POP", Seq("i"), "DOUBLE"),
    call("all_s", "COLLECT", Seq("s"), "ARRAY<STRING>"),
    call("set_i", "COLLECT_SET", Seq("i"), "ARRAY<INT>"),
    call("texts", "LISTAGG", Seq("s", "bar"), "STRING", distinct = true)
  )

  private def prepared(df: DataFrame): DataFrame = df.select(
    col("k"), col("i"), col("d"), col("i").cast("decimal(10, 2)").as("m"), col("s"), when(col("i") % 2 === 0, col("i")).as("even"),
    timestamp_seconds(when(col("i") % 2 === 0, col("i"))).as("t"), array(col("i"), lit(null).cast("int")).as("l"), lit("|").as("bar"), col("op"))

  /** The same by Spark's own aggregates over rows that stay. */
  private def batch(rows: Seq[Change]): Map[String, Seq[Any]] =
    prepared(rows.toDF()).groupBy("k").agg(
      count(lit(1)), count(col("i")), countDistinct(col("i"), col("s")), sum("i"), sum("d"), sum("m"), sum_distinct(col("i")),
      sum("even"), avg("i"), expr("CAST(sum(m) / CAST(count(m) AS DECIMAL(20, 0)) AS DECIMAL(38, 6))"),
      min("s"), max("d"), max("t"), min("l"), stddev("d"), var_pop("i"),
      array_sort(collect_list("s")), array_sort(collect_set("i")), array_sort(collect_set("s"))
    ).collect().map(row => row.getString(0) -> row.toSeq.tail).toMap

  /** Brings what has an order by chance into one, and doubles to the digits that Spark's own sums have. */
  private def comparable(values: Seq[Any]): Seq[Any] = values.map {
    case list: collection.Seq[_]                               => list.map(String.valueOf(_)).sorted
    case text: String if text.contains("|") || text.length == 1 => text.split('|').sorted.toSeq
    case number: Double if !number.isNaN && number != 0        => BigDecimal(number).round(new java.math.MathContext(11)).toString
    case number: Double                                        => number.toString.stripPrefix("-")
    case other                                                 => other
  }

  private def checked(changes: Seq[Change], received: Map[String, Seq[Any]]): Unit = {
    val left = changes.groupMapReduce(_.copy(op = 1))(_.op.toInt)(_ + _).toSeq.flatMap { case (row, n) => Seq.fill(n)(row) }
    val expected = batch(left)
    assertEquals(received.keySet, expected.keySet)
    for ((key, values) <- expected) assertEquals(comparable(received(key)), comparable(values.updated(18, texts(values(18)))), key)
  }

  private def texts(sorted: Any): Any = sorted match {
    case list: collection.Seq[_] if list.isEmpty => null
    case list: collection.Seq[_]                 => list.mkString("|")
  }

  /** The last version of each key. */
  private def shown(rows: Seq[Row]): Map[String, Seq[Any]] =
    rows.groupBy(_.getString(0)).map { case (key, versions) => key -> versions.last }.collect {
      case (key, last) if !last.getAs[Boolean]("__headrace_deleted") => key -> last.toSeq.tail.init
    }

  private def anyRow(random: Random): Change = Change(
    Seq("a", "b", null)(random.nextInt(3)), Option.when(random.nextInt(6) > 0)(random.nextInt(20)),
    Option.when(random.nextInt(6) > 0)(Seq(0.0, -0.0, Double.NaN, random.nextInt(100) * 0.25 + 1e6)(math.min(random.nextInt(12), 3))),
    Option.when(random.nextInt(6) > 0)(Seq("x", "y", "z")(random.nextInt(3))), 1)

  for (output <- Seq("upsert", "signed"))
    test(s"rows that come and go, in any order, however they are cut: $output gives what a batch does") {
      val random = new Random(output.hashCode)
      val input = MemoryStream[Change](spark)
      val aggregated = ChangelogAggregate.aggregate(prepared(input.toDF()), asList("k"), calls(orderFree: _*), "op", output, TimeToLive.Forever)
      val result = if (output == "upsert") aggregated else Materialize.rows(aggregated, asList("k"), "__headrace_op", TimeToLive.Forever)
      val rows = Seq.fill(120)(anyRow(random))
      // Some rows are taken away before they come, some with the batch that brings them, many later.
      val gone = random.shuffle(rows).take(80).map(_.copy(op = -1))
      val changes = gone.take(10) ++ random.shuffle(rows.take(60) ++ gone.slice(10, 30)) ++ rows.drop(60) ++ gone.drop(30)
      val last = rows.map(_.copy(op = -1)).diff(gone)
      val checkpoint = newCheckpoint()
      val early = running(result, checkpoint) { query =>
        for (part <- Seq(changes.take(10), changes.slice(10, 90), changes.slice(90, 91))) {
          input.addData(part: _*)
          query.rows()
        }
        query.rows()
      }
      running(result, checkpoint) { query =>
        input.addData(changes.drop(91): _*)
        checked(changes, shown(early ++ query.rows()))
        input.addData(last: _*)
        assertEquals(shown(early ++ query.rows()), Map.empty[String, Seq[Any]])
        assertEquals(query.query.lastProgress.stateOperators.map(_.numRowsTotal).sum, 0L)
      }
    }

  test("rows that only come give what a batch does") {
    val random = new Random(3)
    val input = MemoryStream[Change](spark)
    val result = ChangelogAggregate.aggregate(prepared(input.toDF()), asList("k"), calls(orderFree: _*), null, "upsert", TimeToLive.Forever)
    val rows = Seq.fill(100)(anyRow(random))
    running(result) { query =>
      for (part <- Seq(rows.take(1), rows.slice(1, 60), rows.drop(60))) {
        input.addData(part: _*)
        query.rows()
      }
      checked(rows, shown(query.rows()))
    }
  }

  test("an update takes the old result away, with its event time, and what changes nothing visible gives nothing") {
    val input = MemoryStream[(String, Int, Int, Timestamp)](spark)
    val rows = input.toDF().toDF("k", "v", "op", "__headrace_rowtime").withWatermark("__headrace_rowtime", "0 seconds")
    val highest = ChangelogAggregate.aggregate(rows, asList("k"), calls(call("m", "MAX", Seq("v"), "INT")), "op", "signed", TimeToLive.Forever)
    assertEquals(highest.columns.toSeq, Seq("k", "m", "__headrace_rowtime", "__headrace_op"))
    assertEquals(highest.schema("__headrace_rowtime").dataType, TimestampType)
    assertEquals(highest.schema("__headrace_rowtime").metadata, rows.schema("__headrace_rowtime").metadata)
    running(highest) { query =>
      def seen = query.rows().map(row => (row.getInt(1), row.getTimestamp(2), row.getByte(3).toInt))
      input.addData(("a", 5, 1, at(1)), ("a", 3, 1, at(2)))
      assertEquals(seen, Seq((5, at(2), 1)))
      input.addData(("a", 4, 1, at(3)))
      assertEquals(seen.size, 1)
      input.addData(("a", 5, -1, at(4)))
      assertEquals(seen.drop(1), Seq((5, at(2), -1), (4, at(4), 1)))
      input.addData(("a", 4, -1, at(5)), ("a", 3, -1, at(5)))
      assertEquals(seen.drop(3), Seq((4, at(4), -1)))
    }
  }

  test("without keys there is one group, which stays without rows") {
    val input = MemoryStream[(Int, Int)](spark)
    val total = ChangelogAggregate.aggregate(
      input.toDF().toDF("v", "op"), asList(), calls(call("n", "COUNT", Nil, "BIGINT"), call("s", "SUM", Seq("v"), "BIGINT")),
      "op", "upsert", TimeToLive.Forever)
    running(total) { query =>
      input.addData((4, 1))
      query.rows()
      input.addData((4, -1))
      assertEquals(query.rows().map(_.toSeq), Seq(Seq(1L, 4L, false), Seq(0L, null, false)))
    }
  }

  test("values are shown in the order in which they came, and the next one follows one that is taken away") {
    val input = MemoryStream[(String, String, Int)](spark)
    val values = ChangelogAggregate.aggregate(
      input.toDF().toDF("k", "v", "op").withColumn("sep", lit("; ")), asList("k"),
      calls(
        call("first", "FIRST_VALUE", Seq("v"), "STRING"), call("last", "LAST_VALUE", Seq("v"), "STRING"),
        call("all", "COLLECT", Seq("v"), "ARRAY<STRING>"), call("text", "LISTAGG", Seq("v", "sep"), "STRING"),
        call("comma", "LISTAGG", Seq("v"), "STRING", distinct = true)),
      "op", "upsert", TimeToLive.Forever)
    running(values) { query =>
      for (change <- Seq[(String, Int)](("x", 1), ("y", 1), ("x", 1), (null, 1), ("x", -1))) {
        input.addData(("a", change._1, change._2))
        query.rows()
      }
      val rows = query.rows().map(row => (row.getString(1), row.getString(2), row.getSeq[String](3).toList, row.getString(4), row.getString(5)))
      assertEquals(rows, Seq(
        ("x", "x", List("x"), "x", "x"), ("x", "y", List("x", "y"), "x; y", "x,y"),
        ("x", "x", List("x", "y", "x"), "x; y; x", "x,y"), ("y", "x", List("y", "x"), "y; x", "x,y")))
    }
  }

  test("MIN stays right when more values are taken away than it keeps at hand, and when one comes meanwhile") {
    val input = MemoryStream[(Int, Int)](spark)
    val lowest = ChangelogAggregate.aggregate(
      input.toDF().toDF("v", "op"), asList(), calls(call("m", "MIN", Seq("v"), "INT")), "op", "upsert", TimeToLive.Forever)
    running(lowest) { query =>
      def last = query.rows().last.getInt(0)
      input.addData((1 to 40).map(v => (v, 1)): _*)
      assertEquals(last, 1)
      input.addData((1 to 8).map(v => (v, -1)) :+ (20, 1): _*)
      assertEquals(last, 9)
      input.addData((9 to 30).map(v => (v, -1)): _*)
      assertEquals(last, 20)
      input.addData((20, -1), (31, -1))
      assertEquals(last, 32)
    }
  }

  test("without calls it gives the different rows, once each, and takes them away with the last of them") {
    val input = MemoryStream[(String, Int, Int)](spark)
    val rows = input.toDF().toDF("k", "v", "op")
    running(ChangelogAggregate.aggregate(rows, asList("k", "v"), calls(), "op", "signed", TimeToLive.Forever)) { query =>
      input.addData(("a", 1, 1), ("a", 1, 1), ("b", 1, 1))
      query.rows()
      input.addData(("a", 1, -1), ("b", 1, -1), ("c", 1, 1), ("c", 1, -1))
      assertEquals(query.rows().map(_.mkString(",")).sorted, Seq("a,1,1", "b,1,-1", "b,1,1"))
    }
  }

  test("a SUM beyond BIGINT fails with what was expected, one that comes back into it does not") {
    val input = MemoryStream[Long](spark)
    val total = ChangelogAggregate.aggregate(
      input.toDF().toDF("v"), asList(), calls(call("s", "SUM", Seq("v"), "BIGINT")), null, "upsert", TimeToLive.Forever)
    running(total) { query =>
      input.addData(Long.MaxValue, Long.MaxValue, -Long.MaxValue, Long.MinValue)
      assertEquals(query.rows().map(_.getLong(0)), Seq(-1L))
      input.addData(Long.MinValue)
      val error = intercept[Exception](query.rows())
      assert(causes(error).exists(_ == "SUM does not fit into BIGINT"), causes(error).mkString("\n"))
    }
  }

  test("a call that is none is refused") {
    val rows = prepared(MemoryStream[Change](spark).toDF())
    def refused(one: AggregateCall): String =
      intercept[IllegalArgumentException](ChangelogAggregate.aggregate(rows, asList("k"), calls(one), "op", "upsert", TimeToLive.Forever)).getMessage
    assert(refused(call("x", "MEDIAN", Seq("i"), "DOUBLE")).contains("found MEDIAN"))
    assert(refused(call("x", "SUM", Seq("s"), "STRING")).contains("found s STRING"))
    assert(refused(call("x", "MIN", Seq("i", "s"), "INT")).contains("found 2"))
  }
}

object ChangelogAggregateSuite {
  final case class Change(k: String, i: Option[Int], d: Option[Double], s: Option[String], op: Byte)
}
