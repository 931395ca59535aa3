package io.headrace.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.headrace.SparkInternals

/** The file `watermark` in a query's checkpoint: how far every partition had come.
  *
  * Spark keeps the watermark over a restart, not what it was made of. Without this, a restarted query would wait for a
  * new row of every partition, and for ever when the source has no more. It is written after a batch has run and before
  * Spark commits it. That is never too early: a batch that was not committed runs again with the same rows.
  */
private[spark] final class WatermarkCheckpoint(execution: MicroBatchExecution) {
  import WatermarkCheckpoint._

  private val file = new SparkInternals.CheckpointFile(execution, FileName)
  private var written = Map.empty[Place, Long]

  /** What was written last, in milliseconds since 1970; empty for a query that has not run. */
  def read(): Map[Place, Long] =
    file.read().fold(Map.empty[Place, Long]) { bytes =>
      val root = mapper.readTree(bytes)
      val version = root.path("version").asInt()
      if (version != Version)
        throw new IllegalStateException(
          s"expected version $Version of the file $FileName in the checkpoint, found $version: " +
            "it was written by another version of Headrace"
        )
      root.path("partitions").elements().asScala.map { entry =>
        Place(entry.path("source").asText(), entry.path("topic").asText(), entry.path("partition").asInt()) ->
          entry.path("maxEventTimeMs").asLong()
      }.toMap
    }

  /** Replaces the file, whole or not at all; does nothing when nothing is new. */
  def write(maxima: Map[Place, Long]): Unit = synchronized {
    if (maxima != written) {
      val root = mapper.createObjectNode().put("version", Version)
      val list = root.putArray("partitions")
      maxima.foreach { case (place, ms) =>
        list
          .addObject()
          .put("source", place.source)
          .put("topic", place.entity)
          .put("partition", place.partition)
          .put("maxEventTimeMs", ms)
      }
      file.write(mapper.writeValueAsBytes(root))
      written = maxima
    }
  }
}

private[spark] object WatermarkCheckpoint {
  // `topic` is what the entity was called when this file was made.
  private val FileName = "watermark"
  private val Version = 1
  private val mapper = new ObjectMapper()

  /** A partition, by the names that a restart leaves as they are. */
  final case class Place(source: String, entity: String, partition: Int)
}
