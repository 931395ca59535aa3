package io.headrace.spark

import java.sql.Timestamp
import java.util.Arrays.asList

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._

import SparkTesting._

class NormalizeSuite extends PatientSuite {
  import spark.implicits._
  import NormalizeSuite._

  private final class Versions(ttlMs: Long = 0, more: DataFrame => DataFrame = identity) {
    val input: MemoryStream[Version] = MemoryStream[Version](spark)
    val table: DataFrame = more(input.toDF().withWatermark("ts", "0 seconds"))
    val signed: DataFrame = Normalize.rows(table, asList("k", "part"), "gone", "at", kinds = false, TimeToLive(ttlMs, repeats = false))

    def set(key: String, value: Int, at: Long = 0, second: Int = 0): Unit =
      input.addData(Version(key, None, Some(value), gone = false, at, SparkTesting.at(second)))
    def delete(key: String, at: Long = 0): Unit =
      input.addData(Version(key, None, None, gone = true, at, SparkTesting.at(0)))
  }

  private def seen(rows: Seq[Row]): Seq[(String, Int, Int)] =
    rows.map(row => (row.getAs[String]("k"), row.getAs[Int]("v"), row.getAs[Byte]("__headrace_op").toInt))

  test("a new version takes the old one away, a deletion takes it away for good, and what changes nothing gives nothing") {
    val versions = new Versions()
    assertEquals(versions.signed.columns.toSeq, Seq("k", "part", "v", "ts", "__headrace_op"))
    running(versions.signed) { query =>
      versions.delete("a")
      assertEquals(seen(query.rows()), Nil)
      versions.set("a", 1)
      assertEquals(seen(query.rows()), Seq(("a", 1, 1)))
      versions.set("a", 1)
      assertEquals(query.rows().size, 1)
      versions.set("a", 2)
      assertEquals(seen(query.rows()).drop(1), Seq(("a", 1, -1), ("a", 2, 1)))
      versions.delete("a")
      assertEquals(seen(query.rows()).drop(3), Seq(("a", 2, -1)))
    }
  }

  test("with kinds, an update has a sign of its own") {
    val versions = new Versions()
    running(Normalize.rows(versions.table, asList("k", "part"), "gone", "at", kinds = true, TimeToLive.Forever)) { query =>
      versions.set("a", 1)
      query.rows()
      versions.set("a", 2)
      query.rows()
      versions.delete("a")
      assertEquals(seen(query.rows()), Seq(("a", 1, 1), ("a", 1, -2), ("a", 2, 2), ("a", 2, -1)))
    }
  }

  test("of the rows of one call the last by sequence counts, and a NULL is a key like others") {
    val versions = new Versions()
    running(versions.signed) { query =>
      versions.input.addData(
        Version(null, None, Some(2), gone = false, 2, at(0)),
        Version(null, None, Some(3), gone = false, 3, at(0)),
        Version(null, None, Some(1), gone = false, 1, at(0)),
        Version("", None, Some(9), gone = false, 1, at(0))
      )
      assertEquals(seen(query.rows()).toSet, Set((null: String, 3, 1), ("", 9, 1)))
    }
  }

  test("after a restart the last versions are still known; other columns are refused with what to do") {
    val versions = new Versions()
    val checkpoint = newCheckpoint()
    running(versions.signed, checkpoint) { query =>
      versions.set("a", 1)
      query.rows()
    }
    running(versions.signed, checkpoint) { query =>
      versions.set("a", 2)
      assertEquals(seen(query.rows()), Seq(("a", 1, -1), ("a", 2, 1)))
    }
    val wider = Normalize.rows(versions.table.withColumn("more", col("v")), asList("k", "part"), "gone", "at", kinds = false, TimeToLive.Forever)
    running(wider, checkpoint) { query =>
      versions.set("a", 3)
      val error = intercept[Exception](query.rows())
      assert(causes(error).exists(_.contains("new checkpoint")), causes(error).mkString("\n"))
    }
  }

  test("a key that was not touched for its time to live is forgotten, one that was is not") {
    val versions = new Versions(ttlMs = 10000)
    running(versions.signed) { query =>
      def batch(second: Int, keys: String*): Unit = {
        keys.foreach(key => versions.set(key, second, second = second))
        query.rows()
      }
      batch(100, "a", "b") // Before the first watermark: counts from 100 on.
      batch(105, "c")
      batch(108, "b") // At 105.
      batch(112, "c") // a is over at 110, b not before 115.
      val before = query.rows().size
      batch(112, "a", "b")
      assertEquals(seen(query.rows()).drop(before).toSet, Set(("a", 112, 1), ("b", 108, -1), ("b", 112, 1)))
    }
  }

  test("the state of a deleted key is gone with its timer") {
    val versions = new Versions(ttlMs = 10000)
    running(versions.signed) { query =>
      for (round <- 1 to 2) {
        versions.set("a", round, second = round)
        query.rows()
        versions.delete("a")
        query.rows()
      }
      assertEquals(query.query.lastProgress.stateOperators.head.numRowsTotal, 0L)
    }
  }

  test("a key of a type that cannot be compared is refused by name") {
    val versions = new Versions(more = _.withColumn("m", map(lit(1), struct(col("v")))))
    val error = intercept[IllegalArgumentException](Normalize.rows(versions.table, asList("m"), null, null, false, TimeToLive.Forever))
    assert(error.getMessage.contains("found m MAP"), error.getMessage)
  }

  test("-0.0 and 0.0 are one key, NaN is one key, inside of structs too, and rows of every type come back as they were") {
    val input = MemoryStream[(Double, Double, Int)](spark)
    val table = input.toDF().toDF("x", "y", "n").select(
      col("x"), struct(col("y")).as("s"), col("n"), col("n").cast("decimal(30, 4)").as("d"), array(col("n"), lit(null)).as("l"),
      timestamp_seconds(col("n")).as("t"), lit(null).cast("decimal(38, 2)").as("nothing"), struct(col("n"), col("x")).as("p"))
    running(Normalize.rows(table, asList("x", "s"), null, null, false, TimeToLive.Forever)) { query =>
      input.addData((0.0, Double.NaN, 1))
      query.rows()
      input.addData((-0.0, -Double.NaN, 2))
      val rows = query.rows()
      assertEquals(rows.map(row => (row.getInt(2), row.getAs[Byte]("__headrace_op").toInt)), Seq((1, 1), (1, -1), (2, 1)))
      assertEquals(rows(1).toSeq.init, rows(0).toSeq.init)
      assertEquals(rows(2).getDecimal(3), new java.math.BigDecimal("2.0000"))
      assertEquals(rows(2).getSeq[Integer](4), Seq[Integer](2, null))
      assertEquals(rows(2).getTimestamp(5), at(2))
      assert(rows(2).isNullAt(6))
      assertEquals(rows(2).getStruct(7).getInt(0), 2)
    }
  }

  test("however the input is cut, what is added less what is taken away is the last rows") {
    val random = new Random(1)
    val versions = new Versions()
    val changes = for (n <- 1 to 200) yield
      Version(Seq("a", "b", "c", null)(random.nextInt(4)), None, Some(random.nextInt(3)), random.nextInt(4) == 0, n, at(0))
    val cuts = 0 +: Seq.fill(5)(random.nextInt(200)).sorted :+ 200
    running(versions.signed) { query =>
      var sum = Map.empty[(String, Int), Int]
      for (Seq(from, to) <- cuts.sliding(2)) {
        versions.input.addData(random.shuffle(changes.slice(from, to)): _*)
        sum = query.rows().groupMapReduce(row => (row.getString(0), row.getInt(2)))(_.getAs[Byte]("__headrace_op").toInt)(_ + _)
        val last = changes.take(to).groupBy(_.k).values.map(_.last).filterNot(_.gone)
        assertEquals(sum.filter(_._2 != 0), last.map(row => ((row.k, row.v.get), 1)).toMap)
      }
    }
  }
}

object NormalizeSuite {
  final case class Version(k: String, part: Option[Int], v: Option[Int], gone: Boolean, at: Long, ts: Timestamp)
}
