package io.headrace.spark

import java.nio.ByteBuffer
import java.util.{Arrays, LinkedHashMap}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming.TTLConfig

/** A row that is added to a partition, taken away from it, or still there. `closes` is in microseconds. */
private[spark] final case class RankInput(op: Byte, closes: Long, row: Array[Byte])

/** A row and its rank, which counts from 1. */
private[spark] final case class RankOutput(op: Byte, rank: Long, row: Array[Byte])

/** Definition of a ranking's output.
  *
  * @param function  how rows are numbered
  * @param columns  how many a row has
  * @param signed   whether rows that leave come out as well
  * @param ranked   whether a row's place is part of it
  * @param newestFirst  whether of rows that are equal in order the one that came last goes first
  */
private[spark] final case class TopNForm(
    function: RankFunction,
    order: RowOrder,
    columns: Int,
    limit: Int,
    insertOnly: Boolean,
    signed: Boolean,
    ranked: Boolean,
    newestFirst: Boolean
)

/** The first rows of one partition, given whenever they change. */
private[spark] sealed class TopNProcessor(state: KeyState, ttl: TimeToLive, form: TopNForm)
    extends KeyedOperator[RankInput, RankOutput](state, ttl) {

  @transient protected var ranking: Ranking = _
  @transient private var freeRest: () => Unit = _

  override protected def open(): Unit = {
    val rest =
      if (form.insertOnly) null else getHandle.getMapState("rest", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
    freeRest = () => if (rest != null) rest.clear()
    ranking = new Ranking(form.function, form.order.ordering, form.columns, form.limit, rest, form.newestFirst)
  }

  override protected def free(): Unit = freeRest()

  override protected def change(key: Array[Byte], rows: Iterator[RankInput], time: OperatorTime): Iterator[RankOutput] = {
    val loaded = load()
    val before = if (loaded == null) TopNProcessor.NoRows else ranking.first
    rows.foreach(apply)
    val after = if (ranking.isChanged) ranking.first else before
    if (ranking.isChanged) store(loaded, time) else if (loaded != null) state.touch(loaded, time)
    val changed =
      if (after eq before) Iterator.empty
      else if (byPlace) places(before, after).iterator
      else members(before, after).iterator
    // A change of some places touches none of the others above.
    if (state.isStale) changed ++ repeated(after) else changed
  }

  override protected def repeat(key: Array[Byte]): Iterator[RankOutput] = {
    load()
    repeated(ranking.first)
  }

  private def byPlace: Boolean = !form.function.hasTies && (form.ranked || form.limit == 1)

  private def repeated(rows: Array[PlacedRow]): Iterator[RankOutput] = rows.iterator.map(row => RankOutput(0, row.rank, row.bytes))

  protected def load(): ByteBuffer = {
    val loaded = state.load()
    if (loaded == null) ranking.clear() else ranking.read(loaded)
    loaded
  }

  protected def apply(row: RankInput): Unit = if (row.op > 0) ranking.add(row.row) else if (row.op < 0) ranking.remove(row.row)

  protected def store(loaded: ByteBuffer, time: OperatorTime): Unit =
    if (!ranking.isBlank) {
      val out = state.allocate(ranking.size)
      ranking.write(out)
      state.store(out, time)
    } else if (loaded != null) state.clear(time)

  /** Changes by place. */
  private def places(before: Array[PlacedRow], after: Array[PlacedRow]): ArrayBuffer[RankOutput] = {
    val out = new ArrayBuffer[RankOutput](2)
    var at = 0
    while (at < math.max(before.length, after.length)) {
      val old = if (at < before.length) before(at).bytes else null
      val now = if (at < after.length) after(at).bytes else null
      if (!Arrays.equals(old, now)) {
        if (old != null && (form.signed || now == null)) out += RankOutput(-1, at + 1, old)
        if (now != null) out += RankOutput(1, at + 1, now)
      }
      at += 1
    }
    out
  }

  /** Rows that left and rows that joined, at any place; a row whose rank is shown and changed did both. */
  private def members(before: Array[PlacedRow], after: Array[PlacedRow]): ArrayBuffer[RankOutput] = {
    val differences = new LinkedHashMap[(Long, ByteBuffer), Integer]
    def count(row: PlacedRow, by: Int): Unit =
      differences.merge((if (form.ranked) row.rank else 0L, ByteBuffer.wrap(row.bytes)), by, Integer.sum(_, _))
    before.foreach(count(_, -1))
    after.foreach(count(_, 1))
    val out = ArrayBuffer.empty[RankOutput]
    differences.forEach { (row, count) =>
      for (_ <- 0 until math.abs(count)) out += RankOutput((if (count < 0) -1 else 1).toByte, row._1, row._2.array())
    }
    out
  }
}

private object TopNProcessor {
  private val NoRows = new Array[PlacedRow](0)
}

/** The first rows of one partition, given once, when the watermark has reached its end; nothing is left of it then. */
private[spark] final class ClosingTopNProcessor(state: KeyState, form: TopNForm) extends TopNProcessor(state, TimeToLive.Forever, form) {

  override protected def timed: Boolean = true

  override protected def change(key: Array[Byte], rows: Iterator[RankInput], time: OperatorTime): Iterator[RankOutput] = {
    val loaded = load()
    val head = rows.next()
    // Rounded up. `Math.ceilDiv` is of Java 18.
    if (loaded == null) time.wakeAt(-Math.floorDiv(-head.closes, 1000L))
    apply(head)
    rows.foreach(apply)
    if (ranking.isChanged) store(loaded, time)
    Iterator.empty
  }

  override protected def wake(key: Array[Byte], time: OperatorTime): Iterator[RankOutput] = {
    val loaded = load()
    val rows = if (loaded == null) Array.empty[PlacedRow] else ranking.first
    if (loaded != null) {
      state.clear(time)
      free()
    }
    rows.iterator.map(row => RankOutput(1, row.rank, row.bytes))
  }
}
