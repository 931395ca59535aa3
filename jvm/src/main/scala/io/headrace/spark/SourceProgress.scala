package io.headrace.spark

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** What one look at a source's offsets says about which of its partitions have rows that are not processed yet. */
private[spark] sealed trait SourceProgress

private[spark] object SourceProgress {

  /** Nothing is known of what the source still holds, so nothing can be called empty. */
  case object Unknown extends SourceProgress

  /** The offsets do not name partitions: the source has, or has not, rows left as a whole. */
  final case class Whole(hasRows: Boolean) extends SourceProgress

  /** Partition code -> whether it has rows in the batch, or behind it. */
  final case class Partitions(hasRows: Map[Int, Boolean]) extends SourceProgress

  private val mapper = new ObjectMapper()

  /** Reads Kafka's offsets, `{"topic": {"0": 17}}`; any other source is taken as a whole.
    *
    * @param start   before the batch; None before the first batch
    * @param end     after the batch; None when the source had nothing to say
    * @param latest  the end of the source when it was last polled; None when it was not
    */
  def of(start: Option[String], end: Option[String], latest: Option[String], layout: PartitionLayout): SourceProgress =
    end.fold[SourceProgress](Unknown) { batchEnd =>
      (partitions(batchEnd), latest.map(partitions)) match {
        case (Some(ends), Some(Some(latests))) =>
          val starts = start.flatMap(partitions).getOrElse(Map.empty)
          Partitions((ends.keySet ++ latests.keySet).map { case key @ (topic, partition) =>
            val batch = ends.getOrElse(key, 0L)
            val behind = latests.getOrElse(key, batch) > batch
            layout.code(topic, partition) -> (behind || batch > starts.getOrElse(key, 0L))
          }.toMap)
        case (Some(_), _) => Unknown
        // Many sources do not tell their end: an empty batch is then all the proof there is.
        case (None, _) => Whole(hasRows = !start.contains(batchEnd) || latest.exists(_ != batchEnd))
      }
    }

  def merge(looks: Iterable[SourceProgress]): SourceProgress =
    looks.reduceOption[SourceProgress] {
      case (Unknown, _) | (_, Unknown)   => Unknown
      case (Partitions(a), Partitions(b)) => Partitions(a ++ b.map { case (p, rows) => p -> (rows || a.getOrElse(p, false)) })
      case (Whole(a), Whole(b))           => Whole(a || b)
      case _                              => Unknown
    }.getOrElse(Unknown)

  private def partitions(json: String): Option[Map[(String, Int), Long]] =
    Try(mapper.readTree(json)).toOption.filter(isKafka).map { topics =>
      topics.properties().asScala.flatMap { topic =>
        topic.getValue.properties().asScala.map { partition =>
          (topic.getKey, partition.getKey.toInt) -> partition.getValue.asLong()
        }
      }.toMap
    }

  private def isKafka(node: JsonNode): Boolean =
    node.isObject && node.elements().asScala.forall { topic =>
      topic.isObject && topic.properties().asScala.forall { partition =>
        partition.getKey.nonEmpty && partition.getKey.forall(_.isDigit) && partition.getValue.isIntegralNumber
      }
    }
}
