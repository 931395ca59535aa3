package io.headrace.spark

import java.util.UUID

import scala.collection.mutable

import io.headrace.spark.WatermarkCheckpoint.Place

/** The watermark of one run of a query: the minimum over the active partitions of all its sources.
  *
  * A partition is idle only when its source was ''seen'' to have no rows of it for the idle timeout: neither a backlog
  * nor a long batch makes a partition idle. One that was never heard of holds the watermark until it is idle.
  * One that is finished, a shard that was read to its end, is waited for no more.
  * A source whose rows have the time of their batch is as far as the clock was when it was last polled, whatever it held:
  * what it gives later has a later time. It moves by the ends of windows, since each move runs a batch.
  * The watermark never falls. All times are epoch milliseconds. Thread-safe.
  *
  * @param sources      the watermark nodes of the query
  * @param boundaryMs   subtracted from every watermark: 1 when rows with a time ''equal'' to the watermark must still
  *                     be waited for (see [[QueryRun]]), else 0
  * @param startedMs    when the run began
  */
private[spark] final class QueryWatermark(sources: Map[UUID, SourceSettings], boundaryMs: Long, startedMs: Long) {
  import QueryWatermark._

  private val states: Map[UUID, SourceState] = sources.map { case (node, settings) =>
    node -> new SourceState(settings, boundaryMs, startedMs)
  }
  private var current: Option[Long] = None
  private var ended = false

  /** Record the state of the source of `node` at `nowMs`. */
  def look(node: UUID, progress: SourceProgress, nowMs: Long): Unit = synchronized(states(node).look(progress, nowMs))

  /** The greatest event times (partition code -> ms) among rows that were read. */
  def saw(node: UUID, maxima: Iterable[(Int, Long)]): Unit = synchronized {
    maxima.foreach { case (code, ms) => states(node).saw(code, ms) }
  }

  /** The partitions that had rows in the last batch that had any. */
  def newest(): Set[Place] = synchronized {
    latest.map { case (source, partition) => place(source, partition) }.toSet
  }

  /** Progress of every partition. For a source that the query reads twice, that of the slower reading. */
  def maxima(): Map[Place, Long] = synchronized {
    val readings = for {
      source <- states.values.toSeq
      partition <- source.partitions
    } yield place(source, partition) -> partition.maxMs
    readings.groupMapReduce(_._1)(_._2)(math.min).filter(_._2 != Unheard)
  }

  /** Goes on from the [[maxima]] of an earlier run, and from what its windows were last closed by. What the source does not have any more, as a shard that was closed, is left out. */
  def restore(maxima: Map[Place, Long], newest: Set[Place], closedMs: Option[Long]): Unit = synchronized {
    current = closedMs
    for {
      source <- states.values
      (place, ms) <- maxima
      if place.source == source.settings.name && source.settings.partitions.get(place.entity).exists(_.contains(place.partition))
    } source.restore(source.settings.layout.code(place.entity, place.partition), ms, newest.contains(place))
  }

  /** Says that no row will follow: the watermark goes to the end of time. */
  def end(): Unit = synchronized { ended = true }

  /** The watermark, or None while some partition has not been heard of. */
  def combined(): Option[Long] = synchronized {
    val candidate =
      if (ended) Some(EndOfTime)
      else {
        val active = states.values.flatMap(_.partitions).filterNot(partition => partition.finished || partition.idle)
        if (active.nonEmpty) Option.when(active.forall(_.heard))(active.map(_.watermark).min - boundaryMs)
        else if (states.values.forall(_.settings.allIdle == AllIdle.Last))
          latest.collect { case (_, partition) if !partition.finished => partition.watermark - boundaryMs }.maxOption
        else None
      }
    current = (current ++ candidate).maxOption
    current
  }

  private def latest: Iterable[(SourceState, PartitionState)] = {
    val heard = for {
      source <- states.values
      partition <- source.partitions
      if partition.seenMs.isDefined
    } yield source -> partition
    val last = heard.flatMap(_._2.seenMs).maxOption
    heard.filter(_._2.seenMs == last)
  }

  private def place(source: SourceState, partition: PartitionState): Place = {
    val (entity, number) = source.settings.layout.decode(partition.code)
    Place(source.settings.name, entity, number)
  }

  /** A consistent picture of every partition, for people. */
  def snapshot(): Seq[SourceSnapshot] = synchronized {
    states.values.toSeq.sortBy(_.settings.name).map { state =>
      SourceSnapshot(
        state.settings,
        state.partitions.toSeq.map { partition =>
          val (entity, number) = state.settings.layout.decode(partition.code)
          PartitionSnapshot(entity, number, Option.when(partition.maxMs != Unheard)(partition.maxMs), partition.idle)
        }.sortBy(partition => (partition.entity, partition.partition))
      )
    }
  }
}

private[spark] object QueryWatermark {

  /** 9999-12-31T23:59:59.999Z, the last millisecond that a TIMESTAMP can print. */
  val EndOfTime: Long = 253402300799999L

  final case class PartitionSnapshot(entity: String, partition: Int, maxMs: Option[Long], idle: Boolean)
  final case class SourceSnapshot(settings: SourceSettings, partitions: Seq[PartitionSnapshot])

  private val Unheard = Long.MinValue

  private final class PartitionState(source: SourceState, val code: Int, var lastRowsMs: Long) {
    var maxMs: Long = Unheard
    /** Time of the source's state before the last batch with rows of it; None: it had none. */
    var seenMs: Option[Long] = None
    var hasRows: Boolean = true
    var finished: Boolean = false

    def heard: Boolean = source.settings.clockStepMs > 0 || maxMs != Unheard
    def watermark: Long = if (source.settings.clockStepMs > 0) source.clock else maxMs - source.settings.delayMs
    def idle: Boolean =
      source.settings.idleMs > 0 && !hasRows && source.lookedMs - lastRowsMs >= source.settings.idleMs
  }

  private final class SourceState(val settings: SourceSettings, boundaryMs: Long, startedMs: Long) {
    private val states = mutable.LongMap.empty[PartitionState]
    var lookedMs: Long = startedMs

    for ((entity, numbers) <- settings.partitions; partition <- numbers)
      state(settings.layout.code(entity, partition), startedMs)

    def partitions: Iterable[PartitionState] = states.values

    /** The last end of a window before the clock. Without rows in open windows only those ends count that all sizes share. */
    def clock: Long = {
      val size = settings.window.fold(settings.clockStepMs)(_.sizeMs)
      val now = lookedMs - boundaryMs
      val newest = states.values.map(_.maxMs).maxOption.getOrElse(Unheard)
      val open = newest != Unheard && now < newest + 2 * size
      val step = if (open) settings.clockStepMs else math.max(size, settings.clockStepMs)
      val phase = (size + settings.window.fold(0L)(_.offsetMs)) % step
      Math.floorDiv(now - phase, step) * step + phase + boundaryMs
    }

    def look(progress: SourceProgress, nowMs: Long): Unit = {
      lookedMs = math.max(lookedMs, nowMs)
      progress match {
        case SourceProgress.Unknown       => states.values.foreach(mark(_, hasRows = true, nowMs))
        case SourceProgress.Whole(rows)   => states.values.foreach(mark(_, rows, nowMs))
        case SourceProgress.Partitions(rows, finished) =>
          rows.foreach { case (code, has) => mark(state(code, nowMs), has, nowMs) }
          // Its last rows are in a batch that has not run yet, when it has rows.
          finished.foreach(code => state(code, nowMs).finished = !rows.getOrElse(code, false))
          // A partition the source does not list has, as far as anyone can tell, nothing in it.
          states.values.foreach(known => if (!rows.contains(known.code)) mark(known, hasRows = false, nowMs))
      }
    }

    def saw(code: Int, ms: Long): Unit = {
      val partition = state(code, lookedMs)
      partition.maxMs = math.max(partition.maxMs, ms)
      partition.seenMs = Some(lookedMs)
    }

    /** Restore the progress of an earlier run; `newest`: its last batch had rows of the partition. */
    def restore(code: Int, ms: Long, newest: Boolean): Unit = {
      val partition = state(code, lookedMs)
      partition.maxMs = math.max(partition.maxMs, ms)
      // Before anything that this run will see.
      if (newest) partition.seenMs = Some(Long.MinValue)
    }

    private def state(code: Int, nowMs: Long): PartitionState =
      states.getOrElseUpdate(code.toLong, new PartitionState(this, code, nowMs))

    private def mark(partition: PartitionState, hasRows: Boolean, nowMs: Long): Unit = {
      partition.hasRows = hasRows
      if (hasRows) partition.lastRowsMs = math.max(partition.lastRowsMs, nowMs)
    }
  }
}
