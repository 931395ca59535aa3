package io.headrace.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.headrace.SparkInternals

/** The file `watermark` in a query's checkpoint: how far every partition had come, and what the last batch that closed windows
  * by its own rows closed.
  *
  * Spark keeps the watermark over a restart, not what it was made of. Without this, a restarted query would wait for a
  * new row of every partition, and for ever when the source has no more. It is written after the rows of a batch were read and
  * before Spark commits it. That is never too early: a batch that was not committed runs again with the same rows.
  */
private[spark] final class WatermarkCheckpoint(execution: MicroBatchExecution) {
  import WatermarkCheckpoint._

  private val file = new SparkInternals.CheckpointFile(execution, FileName)
  private val stored = file.read().map(parse)
  private var written = stored

  /** Progress in milliseconds since 1970; empty for a query that has not run. */
  def maxima: Map[Place, Long] = stored.fold(Map.empty[Place, Long])(_.maxima)

  /** The partitions that had rows in the last batch that had any; none in a file of an earlier release. */
  def newest: Set[Place] = stored.fold(Set.empty[Place])(_.newest)

  def closed: Option[Closed] = stored.flatMap(_.closed)

  /** Replaces the file, whole or not at all; does nothing when nothing is new. */
  def write(maxima: Map[Place, Long], newest: Set[Place], closed: Option[Closed]): Unit = synchronized {
    val content = Content(maxima, newest, closed)
    if (!written.contains(content)) {
      val root = mapper.createObjectNode().put("version", Version)
      val list = root.putArray("partitions")
      maxima.foreach { case (place, ms) =>
        list
          .addObject()
          .put("source", place.source)
          .put("topic", place.entity)
          .put("partition", place.partition)
          .put("maxEventTimeMs", ms)
          .put("newest", newest.contains(place))
      }
      closed.foreach(known => root.putObject("closed").put("batch", known.batch).put("watermarkMs", known.watermarkMs))
      file.write(mapper.writeValueAsBytes(root))
      written = Some(content)
    }
  }

  private def parse(bytes: Array[Byte]): Content = {
    val root = mapper.readTree(bytes)
    val version = root.path("version").asInt()
    if (version != Version)
      throw new IllegalStateException(
        s"expected version $Version of the file $FileName in the checkpoint, found $version: " +
          "it was written by another version of Headrace"
      )
    val entries = root.path("partitions").elements().asScala.map { entry =>
      Place(entry.path("source").asText(), entry.path("topic").asText(), entry.path("partition").asInt()) -> entry
    }.toSeq
    val closed = Option(root.get("closed")).map(node => Closed(node.path("batch").asLong(), node.path("watermarkMs").asLong()))
    Content(
      entries.map { case (place, entry) => place -> entry.path("maxEventTimeMs").asLong() }.toMap,
      entries.collect { case (place, entry) if entry.path("newest").asBoolean() => place }.toSet,
      closed
    )
  }
}

private[spark] object WatermarkCheckpoint {
  // `topic` is what the entity was called when this file was made.
  private val FileName = "watermark"
  private val Version = 1
  private val mapper = new ObjectMapper()

  private final case class Content(maxima: Map[Place, Long], newest: Set[Place], closed: Option[Closed])

  /** A partition, by the names that a restart leaves as they are. */
  final case class Place(source: String, entity: String, partition: Int)

  /** Windows up to `watermarkMs` were closed in `batch`. */
  final case class Closed(batch: Long, watermarkMs: Long)
}
