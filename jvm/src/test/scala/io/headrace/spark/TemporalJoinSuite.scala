package io.headrace.spark

import java.sql.Timestamp
import java.util.Arrays.asList

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, window}

import SparkTesting._

class TemporalJoinSuite extends PatientSuite {
  import spark.implicits._
  import TemporalJoinSuite._

  /** Both sides as streams with a watermark of no delay; times are in seconds. */
  private final class Sides(how: String = "left", ttlMs: Long = 0) {
    val orders: MemoryStream[(String, Timestamp, Int)] = MemoryStream[(String, Timestamp, Int)](spark)
    val names: MemoryStream[(String, Timestamp, String, Boolean)] = MemoryStream[(String, Timestamp, String, Boolean)](spark)

    val left: DataFrame = orders.toDF().toDF("k", "ts", "v").withWatermark("ts", "0 seconds")
    val right: DataFrame = names.toDF().toDF("id", "since", "name", "gone").withWatermark("since", "0 seconds")
    val joined: DataFrame = TemporalJoin.join(left, right, asList("k"), asList("id"), "ts", "since", "n", "gone", how, ttlMs)

    def order(key: String, seconds: Double, value: Int): Unit = orders.addData((key, at(seconds), value))
    def name(key: String, seconds: Double, value: String): Unit = names.addData((key, at(seconds), value, false))
    def gone(key: String, seconds: Double): Unit = names.addData((key, at(seconds), null, true))

    /** Both watermarks go to `seconds`, by rows of a key that nobody looks at. */
    def tick(seconds: Double): Unit = {
      orders.addData((Tick, at(seconds), 0))
      names.addData((Tick, at(seconds), "tick", false))
    }
  }

  private def seen(rows: Seq[Row]): Seq[(String, Double, Int, String)] =
    rows.filter(_.getString(0) != Tick).map { row =>
      val version = Option(row.getStruct(3)).map(_.getString(2)).orNull
      (row.getString(0), row.getTimestamp(1).getTime / 1000.0, row.getInt(2), version)
    }

  test("a row meets the last version not after it, equal times included, and comes out in order of time") {
    val sides = new Sides()
    running(sides.joined) { query =>
      sides.name("a", 10, "first")
      sides.name("a", 20, "second")
      sides.order("a", 25, 4)
      sides.order("a", 20, 3)
      sides.order("a", 19.999, 2)
      sides.order("a", 5, 1)
      sides.tick(100)
      assertEquals(
        seen(query.rows()),
        Seq(("a", 5.0, 1, null), ("a", 19.999, 2, "first"), ("a", 20.0, 3, "second"), ("a", 25.0, 4, "second"))
      )
    }
  }

  test("a row waits for versions that come after it in arrival but not in time") {
    val sides = new Sides()
    running(sides.joined) { query =>
      sides.order("a", 25, 1)
      sides.name("a", 1, "old")
      assertEquals(seen(query.rows()), Nil)
      sides.name("a", 24, "new")
      sides.tick(30)
      assertEquals(seen(query.rows()), Seq(("a", 25.0, 1, "new")))
    }
  }

  test("a deletion ends a version and matches nothing, until the key is back") {
    val sides = new Sides()
    running(sides.joined) { query =>
      sides.name("a", 10, "first")
      sides.gone("a", 20)
      sides.name("a", 30, "back")
      Seq(15, 20, 25, 30).foreach(second => sides.order("a", second, second))
      sides.tick(100)
      assertEquals(
        seen(query.rows()),
        Seq(("a", 15.0, 15, "first"), ("a", 20.0, 20, null), ("a", 25.0, 25, null), ("a", 30.0, 30, "back"))
      )
    }
  }

  test("an inner join drops rows without a version and rows without a key") {
    val sides = new Sides("inner")
    running(sides.joined) { query =>
      sides.name("a", 10, "first")
      sides.name(null, 1, "nobody")
      sides.order("a", 5, 1)
      sides.order("a", 15, 2)
      sides.order("b", 15, 3)
      sides.order(null, 15, 4)
      sides.tick(100)
      assertEquals(seen(query.rows()), Seq(("a", 15.0, 2, "first")))
    }
  }

  test("in a left join NULL keys and NULL times match nothing and are not lost") {
    val sides = new Sides()
    running(sides.joined) { query =>
      sides.name(null, 1, "nobody")
      sides.name("a", 1, "somebody")
      sides.order(null, 15, 1)
      sides.orders.addData(("a", null, 2))
      sides.tick(100)
      val rows = query.rows().filter(_.getString(0) != Tick)
      assertEquals(rows.map(row => (row.getInt(2), row.isNullAt(3))).sortBy(_._1), Seq((1, true), (2, true)))
    }
  }

  test("a late row meets the version that is still kept") {
    val sides = new Sides()
    running(sides.joined) { query =>
      sides.name("a", 10, "first")
      sides.name("a", 50, "second")
      sides.tick(100)
      query.rows()
      sides.tick(110)
      query.rows()
      sides.order("a", 60, 1)
      sides.tick(120)
      assertEquals(seen(query.rows()), Seq(("a", 60.0, 1, "second")))
    }
  }

  test("the output's names, types and event time are those of the left side, and a window takes it") {
    val sides = new Sides()
    assertEquals(sides.joined.columns.toSeq, Seq("k", "ts", "v", "n"))
    val counted = sides.joined.groupBy(window(col("ts"), "10 seconds"), col("n.name").as("name")).count()
    running(counted) { query =>
      sides.name("a", 1, "first")
      sides.name("a", 12, "second")
      Seq(2, 3, 13).foreach(second => sides.order("a", second, second))
      sides.tick(100)
      val rows = query.rows().filterNot(_.getString(1) == "tick")
      assertEquals(rows.map(row => (row.getString(1), row.getLong(2))).toSet, Set(("first", 2L), ("second", 1L)))
    }
  }

  test("a join is the left side of the next join") {
    val sides = new Sides()
    val regions = MemoryStream[(String, Timestamp, String)](spark)
    val region = regions.toDF().toDF("who", "from", "region").withWatermark("from", "0 seconds")
    val twice = TemporalJoin.join(sides.joined, region, asList("k"), asList("who"), "ts", "from", "r", null, "left", 0)
    running(twice) { query =>
      sides.name("a", 1, "first")
      regions.addData(("a", at(1), "north"), ("a", at(6), "south"))
      sides.order("a", 5, 1)
      sides.order("a", 7, 2)
      sides.tick(50)
      regions.addData((Tick, at(50), "tick"))
      val rows = query.rows().filter(_.getString(0) == "a")
      assertEquals(
        rows.map(row => (row.getInt(2), row.getStruct(3).getString(2), row.getStruct(4).getString(2))),
        Seq((1, "first", "north"), (2, "first", "south"))
      )
    }
  }

  test("after a restart rows that waited and versions that were kept are still there") {
    val sides = new Sides()
    val checkpoint = newCheckpoint()
    running(sides.joined, checkpoint) { query =>
      sides.name("a", 10, "first")
      sides.order("a", 20, 1)
      sides.tick(15)
      assertEquals(seen(query.rows()), Nil)
    }
    running(sides.joined, checkpoint) { query =>
      sides.order("a", 30, 2)
      sides.tick(40)
      assertEquals(seen(query.rows()), Seq(("a", 20.0, 1, "first"), ("a", 30.0, 2, "first")))
    }
  }

  test("state of other columns fails the query with what to do") {
    val sides = new Sides()
    val checkpoint = newCheckpoint()
    running(sides.joined, checkpoint) { query =>
      sides.name("a", 10, "first")
      sides.order("a", 20, 1)
      query.rows()
    }
    val wider = TemporalJoin.join(
      sides.left.withColumn("more", col("v")), sides.right, asList("k"), asList("id"), "ts", "since", "n", "gone", "left", 0)
    running(wider, checkpoint) { query =>
      sides.order("a", 30, 1)
      val error = intercept[Exception](query.rows())
      assert(causes(error).exists(_.contains("new checkpoint")), causes(error).mkString("\n"))
    }
  }

  test("a version older than the time to live matches nothing, and its state goes") {
    val sides = new Sides(ttlMs = 10000)
    running(sides.joined) { query =>
      sides.name("a", 10, "first")
      sides.order("a", 19.999, 1)
      sides.order("a", 20, 2)
      sides.tick(15)
      query.rows()
      sides.tick(100)
      assertEquals(seen(query.rows()), Seq(("a", 19.999, 1, "first"), ("a", 20.0, 2, null)))
      sides.tick(200)
      query.rows()
      // Of the key nothing is left: neither index, nor version, nor timer; what remains is the tick's.
      val keys = query.query.lastProgress.stateOperators.head.numRowsTotal
      assert(keys <= 8, s"$keys rows of state")
    }
  }

  test("columns that cannot be joined are refused by name") {
    val sides = new Sides()
    def refused(join: => DataFrame): String = intercept[IllegalArgumentException](join).getMessage
    assert(refused(TemporalJoin.join(sides.left, sides.right, asList("v"), asList("id"), "ts", "since", "n", null, "left", 0)).contains("v INT and id STRING"))
    assert(refused(TemporalJoin.join(sides.left, sides.right, asList("k"), asList("id"), "ts", "since", "v", null, "left", 0)).contains("found v"))
    assert(refused(TemporalJoin.join(sides.left, sides.right, asList("k"), asList("id"), "ts", "since", "n", null, "full", 0)).contains("found full"))
    assert(refused(TemporalJoin.join(sides.left, sides.right, asList("k"), asList("id"), "v", "since", "n", null, "left", 0)).contains("found v INT"))
  }

  for (seed <- 1 to amount(few = 1, all = 2)) test(s"however the input is cut into batches, the result is that of a batch (seed $seed)") {
    val random = new Random(seed)
    val sides = new Sides()
    val keys = Seq("a", "b", "c")
    val versions = for (n <- 0 until 60) yield (keys(random.nextInt(3)), n + random.nextInt(4), s"v$n", random.nextInt(5) == 0)
    val unique = versions.distinctBy(version => (version._1, version._2)).sortBy(_._2)
    val orders = (for (n <- 0 until 150) yield (keys(random.nextInt(3)), random.nextInt(60), n)).sortBy(_._2)
    running(sides.joined) { query =>
      // Each batch brings a stretch of time of both sides, in any order within the stretch.
      for (start <- 0 until 70 by 10) {
        def within(second: Int) = second >= start && second < start + 10
        random.shuffle(unique.filter(version => within(version._2))).foreach { case (key, second, name, gone) =>
          if (gone) sides.gone(key, second) else sides.name(key, second, name)
        }
        random.shuffle(orders.filter(order => within(order._2))).foreach { case (key, second, n) => sides.order(key, second, n) }
        query.rows()
      }
      sides.tick(1000)
      val expected = orders.map { case (key, second, n) =>
        val version = unique.filter(version => version._1 == key && version._2 <= second).maxByOption(_._2)
        (key, second.toDouble, n, version.filterNot(_._4).map(_._3).orNull)
      }
      val received = seen(query.rows())
      assertEquals(received.sortBy(_._3), expected.sortBy(_._3))
      for (key <- keys) assertEquals(received.filter(_._1 == key).map(_._2), received.filter(_._1 == key).map(_._2).sorted)
    }
  }
}

object TemporalJoinSuite {
  private val Tick = "tick"
}
