package io.headrace.spark

import java.util.UUID

class QueryWatermarkSuite extends PatientSuite {
  private val (orders, customers) = (UUID.randomUUID(), UUID.randomUUID())
  private val Started = 1000000L

  private def settings(partitions: Int, delayMs: Long = 0, idleMs: Long = 0, allIdle: AllIdle = AllIdle.Last) =
    SourceSettings("s", delayMs, idleMs, allIdle, Map("t" -> (0 until partitions)))

  private def one(source: SourceSettings, boundaryMs: Long = 0) =
    new QueryWatermark(Map(orders -> source), boundaryMs, Started)

  private def rows(haveRows: (Int, Boolean)*) = SourceProgress.Partitions(haveRows.toMap)

  test("it is the minimum over the partitions, less the delay") {
    val watermark = one(settings(3, delayMs = 10))
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 300L, 2 -> 400L))
    assertEquals(watermark.combined(), Some(290L))
  }

  test("a partition that was never heard of holds it") {
    val watermark = one(settings(2))
    watermark.saw(orders, Seq(0 -> 500L))
    assertEquals(watermark.combined(), None)
    watermark.saw(orders, Seq(1 -> 100L))
    assertEquals(watermark.combined(), Some(100L))
  }

  test("it is the minimum over all sources, each less its own delay") {
    val watermark =
      new QueryWatermark(Map(orders -> settings(1, delayMs = 10), customers -> settings(1, delayMs = 200)), 0, Started)
    watermark.saw(orders, Seq(0 -> 500L))
    assertEquals(watermark.combined(), None)
    watermark.saw(customers, Seq(0 -> 600L))
    assertEquals(watermark.combined(), Some(400L))
  }

  test("a source whose rows have the time of their batch is as far as the clock, by the ends of windows") {
    val hop = settings(2).copy(window = EventWindow.of(20000, 5000), clockStepMs = 5000)
    for (boundary <- Seq(0L, 1L)) {
      val watermark = new QueryWatermark(Map(orders -> hop), boundary, 0)
      def at(nowMs: Long): Option[Long] = {
        watermark.look(orders, rows(0 -> true, 1 -> false), nowMs)
        watermark.combined()
      }
      watermark.saw(orders, Seq(0 -> 101000L))
      // Windows end every 5 s while they may hold rows; then only what all sizes share is looked at.
      assertEquals(Seq(101000L, 104999L, 105001L, 121001L, 139999L).map(at(_).get), Seq(100000L, 100000L, 105000L, 120000L, 135000L))
      assertEquals(Seq(145001L, 160001L).map(at(_).get), Seq(140000L, 160000L))
    }
  }

  test("a clock ends windows with an offset where they end") {
    val tumble = settings(1).copy(window = EventWindow.of(10000, 10000, 3000), clockStepMs = 10000)
    val watermark = new QueryWatermark(Map(orders -> tumble), 0, 0)
    watermark.saw(orders, Seq(0 -> 101000L))
    val ends = Seq(102999L, 103000L, 112999L, 113000L).map { nowMs =>
      watermark.look(orders, rows(0 -> true), nowMs)
      watermark.combined().get
    }
    assertEquals(ends, Seq(93000L, 103000L, 103000L, 113000L))
  }

  test("the last window of a row starts at a multiple of the advance, plus the offset") {
    val hop = EventWindow(10000, 4000, 1000)
    assertEquals(Seq(0L, 1000L, 4999L, 5000L, -1L, -3001L).map(ms => hop.lastEnd(ms * 1000) / 1000), Seq(7000L, 11000L, 11000L, 15000L, 7000L, 3000L))
  }

  test("it never falls") {
    val watermark = one(settings(1))
    watermark.saw(orders, Seq(0 -> 500L))
    assertEquals(watermark.combined(), Some(500L))
    watermark.saw(orders, Seq(0 -> 100L, 1 -> 50L))
    assertEquals(watermark.combined(), Some(500L))
  }

  test("a partition seen empty for the idle timeout no longer holds it, and holds it again when it speaks") {
    val watermark = one(settings(2, idleMs = 50))
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 100L))
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 49)
    assertEquals(watermark.combined(), Some(100L))
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 50)
    assertEquals(watermark.combined(), Some(500L))
    watermark.look(orders, rows(0 -> true, 1 -> true), Started + 60)
    watermark.saw(orders, Seq(0 -> 900L, 1 -> 600L))
    assertEquals(watermark.combined(), Some(600L))
  }

  test("a backlog keeps a partition active however long it lasts") {
    val watermark = one(settings(2, idleMs = 50))
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 100L))
    watermark.look(orders, rows(0 -> true, 1 -> true), Started + 100000)
    assertEquals(watermark.combined(), Some(100L))
  }

  test("time that passes without a look at the source makes nothing idle") {
    val watermark = one(settings(2, idleMs = 50))
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 20)
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 100L))
    assertEquals(watermark.combined(), Some(100L))
  }

  test("when all fall idle in one look, it goes on to the furthest of those that had a row last") {
    val watermark = one(settings(4, idleMs = 50))
    watermark.look(orders, rows(0 -> true, 1 -> true, 2 -> true, 3 -> false), Started + 10)
    watermark.saw(orders, Seq(0 -> 900L, 1 -> 500L, 2 -> 100L))
    // Partition 3 never had one, and holds it until it is idle.
    assertEquals(watermark.combined(), None)
    watermark.look(orders, rows(0 -> false, 1 -> true, 2 -> true, 3 -> false), Started + 20)
    watermark.saw(orders, Seq(1 -> 600L, 2 -> 200L))
    watermark.look(orders, rows(0 -> false, 1 -> false, 2 -> false, 3 -> false), Started + 500)
    assertEquals(watermark.combined(), Some(600L))
    // One that speaks again holds it where it is, until it has come as far.
    watermark.look(orders, rows(0 -> false, 1 -> false, 2 -> true, 3 -> false), Started + 510)
    watermark.saw(orders, Seq(2 -> 300L))
    assertEquals(watermark.combined(), Some(600L))
    watermark.saw(orders, Seq(2 -> 700L))
    assertEquals(watermark.combined(), Some(700L))
  }

  test("what a partition has left to read is never passed by, however long the others are idle") {
    val watermark = one(settings(2, idleMs = 50))
    watermark.look(orders, rows(0 -> true, 1 -> true), Started + 10)
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 100L))
    watermark.look(orders, rows(0 -> false, 1 -> true), Started + 5000)
    assertEquals(watermark.combined(), Some(100L))
  }

  test("a run goes on to what had a row last in the one before, and holds where that is not known") {
    val before = one(settings(2, idleMs = 50))
    before.look(orders, rows(0 -> true, 1 -> true), Started + 10)
    before.saw(orders, Seq(0 -> 900L, 1 -> 100L))
    before.look(orders, rows(0 -> false, 1 -> true), Started + 20)
    before.saw(orders, Seq(1 -> 600L))
    for ((newest, expected) <- Seq(before.newest() -> Some(600L), Set.empty[WatermarkCheckpoint.Place] -> None)) {
      val after = one(settings(2, idleMs = 50))
      after.restore(before.maxima(), newest, closedMs = None)
      after.look(orders, rows(0 -> false, 1 -> false), Started + 500)
      assertEquals(after.combined(), expected)
    }
  }

  test("when all are idle it holds if the sources say so") {
    val watermark = one(settings(2, idleMs = 50, allIdle = AllIdle.Hold))
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 100L))
    watermark.look(orders, rows(0 -> false, 1 -> false), Started + 500)
    assertEquals(watermark.combined(), None)
  }

  test("one source that holds is enough to hold the query when all are idle") {
    val watermark = new QueryWatermark(
      Map(orders -> settings(1, idleMs = 50), customers -> settings(1, idleMs = 50, allIdle = AllIdle.Hold)),
      0,
      Started
    )
    watermark.saw(orders, Seq(0 -> 500L))
    Seq(orders, customers).foreach(watermark.look(_, rows(0 -> false), Started + 500))
    assertEquals(watermark.combined(), None)
  }

  test("a source whose partitions are all idle leaves the others free") {
    val watermark = new QueryWatermark(Map(orders -> settings(1), customers -> settings(1, idleMs = 50)), 0, Started)
    watermark.saw(orders, Seq(0 -> 500L))
    watermark.look(customers, rows(0 -> false), Started + 50)
    assertEquals(watermark.combined(), Some(500L))
  }

  test("a partition that is added while the query runs holds it until it speaks or is idle") {
    val watermark = one(settings(1, idleMs = 50))
    watermark.saw(orders, Seq(0 -> 500L))
    watermark.look(orders, rows(0 -> true, 1 -> true), Started + 10)
    watermark.saw(orders, Seq(0 -> 900L))
    assertEquals(watermark.combined(), None)
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 59)
    assertEquals(watermark.combined(), None)
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 60)
    assertEquals(watermark.combined(), Some(900L))
  }

  test("a partition that is finished holds it no more, once its last rows are in a batch that has run") {
    val watermark = one(settings(2))
    watermark.saw(orders, Seq(0 -> 500L, 1 -> 900L))
    watermark.look(orders, SourceProgress.Partitions(Map(0 -> true, 1 -> true), Set(0)), Started)
    assertEquals(watermark.combined(), Some(500L))
    watermark.look(orders, SourceProgress.Partitions(Map(0 -> false, 1 -> true), Set(0)), Started)
    assertEquals(watermark.combined(), Some(900L))
  }

  test("after a restart, while the end of the source is unknown, nothing is idle") {
    val watermark = one(settings(2, idleMs = 50))
    watermark.saw(orders, Seq(0 -> 500L))
    watermark.look(orders, SourceProgress.Unknown, Started + 500)
    assertEquals(watermark.combined(), None)
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 549)
    assertEquals(watermark.combined(), None)
    watermark.look(orders, rows(0 -> true, 1 -> false), Started + 550)
    assertEquals(watermark.combined(), Some(500L))
  }

  test("a run goes on from the maxima of the one before, and a source read twice from the reading that was behind") {
    val twice = Map(orders -> settings(2), customers -> settings(2))
    val before = new QueryWatermark(twice, 0, Started)
    before.saw(orders, Seq(0 -> 500L, 1 -> 300L))
    before.saw(customers, Seq(0 -> 450L))
    assertEquals(before.maxima(), Map(WatermarkCheckpoint.Place("s", "t", 0) -> 450L))
    val after = new QueryWatermark(twice, 0, Started)
    after.restore(before.maxima(), before.newest(), closedMs = None)
    assertEquals(after.combined(), None)
    after.saw(orders, Seq(1 -> 600L))
    after.saw(customers, Seq(1 -> 700L))
    assertEquals(after.combined(), Some(450L))
  }

  test("maxima of what is no longer read are left aside") {
    val watermark = one(settings(1))
    val places = Seq(("s", "gone", 0), ("s", "t", 7), ("u", "t", 0))
    watermark.restore(places.map((WatermarkCheckpoint.Place.apply _).tupled(_) -> 1L).toMap, Set.empty, closedMs = None)
    assertEquals(watermark.combined(), None)
    assertEquals(watermark.maxima(), Map.empty[WatermarkCheckpoint.Place, Long])
  }

  test("the end of a bounded run is the end of time") {
    val watermark = one(settings(2))
    watermark.saw(orders, Seq(0 -> 500L))
    watermark.end()
    assertEquals(watermark.combined(), Some(QueryWatermark.EndOfTime))
  }

  test("operators that compare event times leave room for rows with an equal time") {
    val watermark = one(settings(1, delayMs = 10), boundaryMs = 1)
    watermark.saw(orders, Seq(0 -> 500L))
    assertEquals(watermark.combined(), Some(489L))
  }

  test("times before 1970 count as any other") {
    val watermark = one(settings(2))
    watermark.saw(orders, Seq(0 -> -500L, 1 -> -900L))
    assertEquals(watermark.combined(), Some(-900L))
  }
}
