package io.headrace.spark

import java.util.Arrays.asList

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import SparkTesting._

class MaterializeSuite extends PatientSuite {
  import spark.implicits._

  private def seen(rows: Seq[Row]): Seq[(String, Int, Boolean)] =
    rows.map(row => (row.getString(0), row.getInt(1), row.getBoolean(2)))

  test("an update is one new version, whichever of its rows comes first; only what is shown gives a row") {
    val input = MemoryStream[(String, Int, Int)](spark)
    val rows = Materialize.rows(input.toDF().toDF("k", "v", "op"), asList("k"), "op", TimeToLive.Forever)
    assertEquals(rows.columns.toSeq, Seq("k", "v", "__headrace_deleted"))
    running(rows) { query =>
      var known = 0
      def next(changes: (String, Int, Int)*): Seq[(String, Int, Boolean)] = {
        input.addData(changes: _*)
        val all = seen(query.rows())
        val fresh = all.drop(known)
        known = all.size
        fresh
      }
      assertEquals(next(("a", 1, 1)), Seq(("a", 1, false)))
      assertEquals(next(("a", 2, 1), ("a", 1, -1)), Seq(("a", 2, false)))
      assertEquals(next(("a", 2, -1)), Seq(("a", 2, true)))
      assertEquals(next(("a", 3, -1)), Nil)
      assertEquals(next(("a", 3, 1)), Nil)
      // Two rows of one key: the last one shows, then the one before it.
      assertEquals(next(("a", 4, 1)), Seq(("a", 4, false)))
      assertEquals(next(("a", 5, 1)), Seq(("a", 5, false)))
      assertEquals(next(("a", 4, 1)), Seq(("a", 4, false)))
      assertEquals(next(("a", 4, -1), ("a", 4, -1)), Seq(("a", 5, false)))
      assertEquals(next(("a", 5, -1), ("a", 5, 1)), Nil)
      assertEquals(next(("a", 5, -1)), Seq(("a", 5, true)))
      assertEquals(query.query.lastProgress.stateOperators.head.numRowsTotal, 0L)
    }
  }

  test("however the changes are cut, each key shows the row that was added last and is still there") {
    val random = new Random(5)
    val input = MemoryStream[(String, Int, Int)](spark)
    val rows = Materialize.rows(input.toDF().toDF("k", "v", "op"), asList("k"), "op", TimeToLive.Forever).coalesce(1)
    val held = mutable.Map.empty[String, List[Int]].withDefaultValue(Nil) // the last one first
    val changes = Seq.fill(150) {
      val key = Seq("a", "b", null)(random.nextInt(3))
      if (held(key).nonEmpty && random.nextBoolean()) {
        val gone = held(key)(random.nextInt(held(key).size))
        held(key) = held(key).diff(Seq(gone))
        (key, gone, -1)
      } else {
        val value = random.nextInt(1000)
        held(key) = value :: held(key).filter(_ != value)
        (key, value, 1)
      }
    }
    val shown = mutable.Map.empty[String, Int]
    val checkpoint = newCheckpoint()
    for (half <- changes.grouped(75)) running(rows, checkpoint) { query =>
      half.grouped(25).foreach { part =>
        input.addData(part: _*)
        query.rows()
      }
      seen(query.rows()).foreach { case (key, value, deleted) => if (deleted) shown -= key else shown(key) = value }
    }
    assertEquals(shown.toMap, held.collect { case (key, last :: _) => key -> last }.toMap)
  }
}
