package io.headrace.spark

import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** A change of either side on its way into the join.
  *
  * @param right         whether it is one of the right side
  * @param op            1: the row is added; -1: it is taken away; 0: it is still there
  * @param closesMicros  when the row leaves the state, in epoch microseconds; Long.MaxValue: never
  * @param key           null for a row that matches nothing
  */
private[spark] final case class ChangelogInput(
    right: Boolean,
    op: Byte,
    closesMicros: Long,
    key: Array[Byte],
    payload: Array[Byte]
)

/** A pair, or a row alone where the other side's is null, that is added, 1, or taken away, -1, or still there, 0. */
private[spark] final case class ChangelogOutput(op: Byte, left: Array[Byte], right: Array[Byte])

/** The join of a group of keys. See [[ChangelogJoin]] for what it means and [[SignedJoin]] for how it is computed.
  *
  * @param condition  null for none
  * @param closes     whether the left, and the right, rows have closing times
  * @param apart      how far those of a pair may be from each other; null: any
  * @param ttl        when a key that is not touched is forgotten
  * @param rowFormat  stands for the columns of both sides and for how they are joined; other state is refused
  */
private[spark] final class ChangelogJoinProcessor(
    kind: JoinKind,
    condition: JoinCondition,
    closes: (Boolean, Boolean),
    apart: Apart,
    ttl: TimeToLive,
    rowFormat: Int
) extends StatefulProcessor[Int, ChangelogInput, ChangelogOutput] {
  import ChangelogJoinProcessor._

  private val timed = ttl.isOn || closes._1 || closes._2
  private val agenda = new Agenda(new StateFormat("join", StateVersion, rowFormat))
  // Not a lazy value: the compiler clears what only a lazy value reads once that is known. A small batch runs with this very object, and
  // a later one that is not small sends it to its tasks.
  @transient private var join: SignedJoin = _
  @transient private var keys: MapState[Array[Byte], Array[Byte]] = _
  @transient private var chunks: MapState[Array[Byte], Array[Byte]] = _

  def timeMode: TimeMode = if (timed) TimeMode.EventTime() else TimeMode.None()

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    agenda.open(getHandle)
    join = new SignedJoin(kind, condition, closes, apart)
    keys = getHandle.getMapState("key", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
    chunks = getHandle.getMapState("rows", Encoders.BINARY, Encoders.BINARY, TTLConfig.NONE)
  }

  // Spark keeps the group current while it takes rows from the iterator: each key's rows are made when they are asked for.
  override def handleInputRows(
      group: Int,
      rows: Iterator[ChangelogInput],
      timers: TimerValues
  ): Iterator[ChangelogOutput] = {
    val time = if (timed) new EventTime(getHandle, timers) else KeyedOperator.Timeless
    val loaded = agenda.load()
    val alone = new Emitted
    val changes = mutable.LinkedHashMap.empty[PackedKey, KeyChanges]
    rows.foreach { row =>
      if (row.key == null) {
        // It has no state, so it is passed on as it comes.
        if (row.op != 0) join.unmatchable(!row.right, row.payload, row.op)(alone)
        else if (ttl.repeats) join.unmatchable(!row.right, row.payload, 1)(alone.repeat)
      } else {
        val ofKey = changes.getOrElseUpdate(new PackedKey(row.key), new KeyChanges)
        if (row.op != 0) (if (row.right) ofKey.right else ofKey.left) += new Change(row.payload, row.op, row.closesMicros)
      }
    }
    val wakes = ArrayBuffer.empty[Due]
    alone.iterator ++
      changes.iterator.flatMap { case (key, ofKey) => change(key.bytes, ofKey, MILLISECONDS.toMicros(loaded.closedMs), time, wakes).iterator } ++
      afterwards(agenda.store(agenda.add(loaded, wakes), loaded, time))
  }

  override def handleExpiredTimer(
      group: Int,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[ChangelogOutput] = {
    val time = new EventTime(getHandle, timers)
    val loaded = agenda.load()
    val (rest, due) = agenda.takeDue(loaded.fired(expired.getExpiryTimeInMs(), time.watermarkMs), time.watermarkMs)
    val wakes = ArrayBuffer.empty[Due]
    due.map(item => new PackedKey(item.key)).distinct.iterator.flatMap(key => wake(key.bytes, time, wakes).iterator) ++
      afterwards(agenda.store(agenda.add(rest, wakes), loaded, time))
  }

  private def change(
      key: Array[Byte],
      changes: KeyChanges,
      closedMicros: Long,
      time: OperatorTime,
      wakes: ArrayBuffer[Due]
  ): Emitted = {
    val (rows, emitted) = (new KeyRows(key), new Emitted)
    join.change(changes.left, changes.right, rows.left, rows.right, closedMicros)(emitted)
    if (timed && !rows.isEmpty) {
      val stale = ttl.isStale(rows.touchedMs, time.watermarkMs)
      rows.touchedMs = time.watermarkMs
      rows.wakeAt(changes.closing(join.showsClosing), ttl.firstWake(rows.touchedMs), wakes)
      // A change of some rows touches none of the others above.
      if (stale) join.shown(rows.left, rows.right)(emitted.repeat)
    }
    rows.store()
    emitted
  }

  /** Lets rows of a key go whose time has come, or all of them. */
  private def wake(key: Array[Byte], time: OperatorTime, wakes: ArrayBuffer[Due]): Emitted = {
    val (rows, emitted) = (new KeyRows(key), new Emitted)
    if (rows.wakeMs <= time.watermarkMs) {
      val look = if (ttl.isOn) ttl.look(rows.wakeMs, rows.touchedMs, time.watermarkMs) else NoLook
      rows.wakeMs = Long.MaxValue
      rows.touchedMs = look.touchedMs
      if (look.isOver) rows.clear()
      else {
        join.close(rows.left, rows.right, MILLISECONDS.toMicros(time.watermarkMs))(emitted)
        if (look.repeats) join.shown(rows.left, rows.right)(emitted.repeat)
        if (!rows.isEmpty) rows.wakeAt(rows.closing, look.wakeMs, wakes)
      }
      rows.store()
    }
    emitted
  }

  /** The state of one key: its rows on both sides, when it was last touched and when it is to be looked at. */
  private final class KeyRows(key: Array[Byte]) {
    val left = new JoinRows(join.leftLayout, new Chunks(key, 0))
    val right = new JoinRows(join.rightLayout, new Chunks(key, 1))
    var wakeMs: Long = Long.MaxValue
    var touchedMs: Long = 0

    private val stored = keys.getValue(key)
    if (stored != null) {
      val in = ByteBuffer.wrap(stored)
      if (timed) {
        wakeMs = in.getLong()
        touchedMs = in.getLong()
      }
      left.take(in)
      right.take(in)
    }

    def isEmpty: Boolean = left.isEmpty && right.isEmpty

    def clear(): Unit = {
      left.clear()
      right.clear()
    }

    def closing: Long = {
      val closing = Seq((left, closes._1), (right, closes._2)).collect {
        case (rows, true) if !rows.isEmpty => rows.closing(join.showsClosing)
      }
      if (closing.isEmpty) Long.MaxValue else if (join.showsClosing) closing.min else closing.max
    }

    /** Asks to be looked at when the first of both comes: a row closes, the time to live says so. */
    def wakeAt(closesMicros: Long, lookMs: Long, wakes: ArrayBuffer[Due]): Unit = {
      val closesMs = ceilMillis(closesMicros)
      val atMs = if (ttl.isOn) math.min(closesMs, lookMs) else closesMs
      if (atMs < wakeMs) {
        wakeMs = atMs
        wakes += Due(atMs * 1000, 0, key, null)
      }
    }

    def store(): Unit =
      if (isEmpty) {
        clear()
        if (stored != null) keys.removeKey(key)
      } else {
        val out = ByteBuffer.allocate((if (timed) 16 else 0) + left.headBytes + right.headBytes)
        if (timed) out.putLong(wakeMs).putLong(touchedMs)
        left.put(out)
        right.put(out)
        keys.updateValue(key, out.array())
      }
  }

  private final class Chunks(key: Array[Byte], side: Byte) extends RowChunks {
    override def read(number: Int): Array[Byte] = chunks.getValue(place(number))
    override def write(number: Int, rows: Array[Byte]): Unit = chunks.updateValue(place(number), rows)
    override def remove(number: Int): Unit = chunks.removeKey(place(number))

    private def place(number: Int): Array[Byte] =
      ByteBuffer.allocate(key.length + 5).put(key).put(side).putInt(number).array()
  }
}

private[spark] object ChangelogJoinProcessor {
  private val StateVersion: Byte = 1
  private val NoLook = Look(isOver = false, repeats = false, TimeToLive.Unknown, Long.MaxValue)

  private final class KeyChanges {
    val left: ArrayBuffer[Change] = ArrayBuffer.empty
    val right: ArrayBuffer[Change] = ArrayBuffer.empty

    /** Time at which the first, or the last, of the changed rows leaves the state. */
    def closing(first: Boolean): Long = {
      val times = (left.iterator ++ right.iterator).map(_.closesMicros).filter(_ != Long.MaxValue)
      (if (first) times.minOption else times.maxOption).getOrElse(Long.MaxValue)
    }
  }

  /** Collector of output rows with their multiplicity. */
  private final class Emitted extends SignedJoin.Emit {
    private val rows = ArrayBuffer.empty[ChangelogOutput]

    override def apply(left: Array[Byte], right: Array[Byte], weight: Int): Unit = {
      val row = ChangelogOutput(math.signum(weight).toByte, left, right)
      var times = math.abs(weight)
      while (times > 0) {
        rows += row
        times -= 1
      }
    }

    /** Says once of each row that it is still there. */
    val repeat: SignedJoin.Emit = (left, right, _) => rows += ChangelogOutput(0, left, right)

    def iterator: Iterator[ChangelogOutput] = rows.iterator
  }

  private def afterwards(work: => Unit): Iterator[ChangelogOutput] = new Iterator[ChangelogOutput] {
    private lazy val done = work
    override def hasNext: Boolean = {
      done
      false
    }
    override def next(): ChangelogOutput = throw new NoSuchElementException
  }

  private def ceilMillis(micros: Long): Long =
    if (micros == Long.MaxValue) Long.MaxValue else -Math.floorDiv(-micros, 1000L)
}
