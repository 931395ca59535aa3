package io.headrace.spark

import java.util.Locale

import org.apache.spark.sql.types.{Metadata, MetadataBuilder}

/** Rule for a query's watermark when every partition of every source is idle. */
private[spark] sealed abstract class AllIdle(val name: String)

private[spark] object AllIdle {

  /** Keep the watermark. Plans from before 0.2 ask for it. */
  case object Hold extends AllIdle("hold")

  /** Move on to the furthest of the partitions that had a record last, as if they had become idle one after the
    * other.
    */
  case object Last extends AllIdle("last")

  /** Keep the watermark until a bounded run (trigger `availableNow`) has read its last row, then move to the end of
    * time.
    */
  case object Flush extends AllIdle("flush")

  private val values = Seq(Last, Hold, Flush)

  /** Throws IllegalArgumentException for any other name. */
  def parse(name: String): AllIdle =
    values
      .find(_.name == name.toLowerCase(Locale.ROOT))
      .getOrElse(
        throw new IllegalArgumentException(
          s"expected one of ${values.map(_.name).mkString(", ")} for what to do when all partitions are idle, found $name"
        )
      )
}

/** Windows of `sizeMs` that begin every `advanceMs` since 1970, each `offsetMs` later; of 0 that begin with each row, as sessions do. */
private[spark] final case class EventWindow(sizeMs: Long, advanceMs: Long, offsetMs: Long) {

  /** End of the last window that contains this time; both in microseconds. */
  def lastEnd(micros: Long): Long = {
    val (advance, offset) = (advanceMs * 1000, offsetMs * 1000)
    val begin = if (advance == 0) micros else Math.floorDiv(micros - offset, advance) * advance + offset
    begin + sizeMs * 1000
  }
}

private[spark] object EventWindow {
  def of(sizeMs: Long, advanceMs: Long, offsetMs: Long = 0): Option[EventWindow] =
    Option.when(sizeMs > 0)(EventWindow(sizeMs, advanceMs, offsetMs))
}

/** Everything the watermark node must know of its source. Travels in the metadata of the watermark column.
  *
  * @param name        the source's name, for people
  * @param delayMs     how far the watermark stays behind the greatest event time
  * @param idleMs      after how long without data a partition stops holding the watermark; 0: never
  * @param partitions  entity -> its partitions, by number, that are known when the query starts
  * @param eventTime   the name of the event-time column
  * @param window      the time windows that the rows go into; None when they go into none
  * @param clockStepMs for rows that have the time of their batch: how often a window ends; the source is as far as the clock, by
  *                    such steps. 0: rows have times of their own
  * @param late        the [[SideTopic]] of rows that are too late for these; None: they are dropped
  * @param internal    the columns of the query that are not its users'
  * @param many        the name of the [[ManyEntities]] of a source of several entities, or of one that may get more; None: of one
  */
private[spark] final case class SourceSettings(
    name: String,
    delayMs: Long,
    idleMs: Long,
    allIdle: AllIdle,
    partitions: Map[String, Seq[Int]],
    eventTime: String = "",
    window: Option[EventWindow] = None,
    late: Option[String] = None,
    clockStepMs: Long = 0,
    many: Option[String] = None,
    internal: InternalColumns = InternalColumns(InternalColumns.Prefix)
) {
  require(delayMs >= 0, s"expected a watermark delay of 0 ms or more for source $name, found $delayMs")
  require(idleMs >= 0, s"expected an idle timeout of 0 ms (off) or more for source $name, found $idleMs")
  require(partitions.nonEmpty, s"expected the partitions of the entities of source $name, found none")

  require(partitions.size == 1 || many.isDefined, s"expected a layout for the entities ${partitions.keys.mkString(", ")} of source $name")

  lazy val layout: PartitionLayout = many.fold[PartitionLayout](OneEntity(partitions.keys.head))(ManyEntities.of)

  def toMetadata: Metadata = {
    val entities = new MetadataBuilder()
    partitions.foreach { case (entity, numbers) => entities.putLongArray(entity, numbers.map(_.toLong).toArray) }
    val settings = new MetadataBuilder()
      .putString("name", name)
      .putLong("delayMs", delayMs)
      .putLong("idleMs", idleMs)
      .putString("allIdle", allIdle.name)
      .putStringArray("entities", partitions.keys.toArray)
      .putMetadata("partitions", entities.build())
      .putString("eventTime", eventTime)
      .putLong("windowMs", window.fold(0L)(_.sizeMs))
      .putLong("advanceMs", window.fold(0L)(_.advanceMs))
      .putLong("offsetMs", window.fold(0L)(_.offsetMs))
      .putString("late", late.getOrElse(""))
      .putLong("clockStepMs", clockStepMs)
      .putString("many", many.getOrElse(""))
      .putString("internal", internal.prefix)
      .build()
    new MetadataBuilder().putMetadata(SourceSettings.Key, settings).build()
  }
}

private[spark] object SourceSettings {
  private val Key = "headrace.watermark"

  /** The settings in a column's metadata; None for a column that is not ours. */
  def fromMetadata(metadata: Metadata): Option[SourceSettings] =
    Option.when(metadata.contains(Key)) {
      val settings = metadata.getMetadata(Key)
      val partitions = settings.getMetadata("partitions")
      SourceSettings(
        name = settings.getString("name"),
        delayMs = settings.getLong("delayMs"),
        idleMs = settings.getLong("idleMs"),
        allIdle = AllIdle.parse(settings.getString("allIdle")),
        partitions = settings.getStringArray("entities").map(name => name -> partitions.getLongArray(name).map(_.toInt).toSeq).toMap,
        eventTime = settings.getString("eventTime"),
        window = EventWindow.of(settings.getLong("windowMs"), settings.getLong("advanceMs"), settings.getLong("offsetMs")),
        late = Option(settings.getString("late")).filter(_.nonEmpty),
        clockStepMs = settings.getLong("clockStepMs"),
        many = Option(settings.getString("many")).filter(_.nonEmpty),
        internal = InternalColumns(settings.getString("internal"))
      )
    }
}
