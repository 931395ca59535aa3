package io.headrace.spark

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Knowledge, from a source's offsets, of the partitions with rows that are not processed yet. */
private[spark] sealed trait SourceProgress

private[spark] object SourceProgress {

  /** Nothing is known of the rest of the source, so that no partition is empty for sure. */
  case object Unknown extends SourceProgress

  /** The offsets do not name partitions: the source has, or has not, rows left as a whole. */
  final case class Whole(hasRows: Boolean) extends SourceProgress

  /** Partition code -> whether it has rows in the batch, or behind it; and those that will never have any again. */
  final case class Partitions(hasRows: Map[Int, Boolean], finished: Set[Int] = Set.empty) extends SourceProgress

  private val mapper = new ObjectMapper()

  /** Reads the offsets of a source that tells them apart, `{"entity": {"0": 17}}`, as Kafka's does; any other is taken as a whole.
    *
    * An offset is a number or a text; null is that of a partition that is read to its end and finished.
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
          val places = (ends.keySet ++ latests.keySet).map(place => layout.code(place._1, place._2) -> place)
          Partitions(
            places.map { case (code, place) =>
              val batch = ends.getOrElse(place, Beginning)
              code -> (latests.getOrElse(place, batch) != batch || batch != starts.getOrElse(place, Beginning))
            }.toMap,
            places.collect { case (code, place) if latests.get(place).contains(Finished) => code }.toSet
          )
        case (Some(_), _) => Unknown
        // Many sources do not tell their end: an empty batch is then all the proof there is.
        case (None, _) => Whole(hasRows = !start.contains(batchEnd) || latest.exists(_ != batchEnd))
      }
    }

  def merge(looks: Iterable[SourceProgress]): SourceProgress =
    looks.reduceOption[SourceProgress] {
      case (Unknown, _) | (_, Unknown) => Unknown
      case (Partitions(a, ended), Partitions(b, done)) =>
        Partitions(a ++ b.map { case (p, rows) => p -> (rows || a.getOrElse(p, false)) }, ended.intersect(done))
      case (Whole(a), Whole(b)) => Whole(a || b)
      case _                    => Unknown
    }.getOrElse(Unknown)

  /** The offset of a partition of which nothing was read. */
  private val Beginning = "0"
  private val Finished = "null"

  private def partitions(json: String): Option[Map[(String, Int), String]] =
    Try(mapper.readTree(json)).toOption.filter(tellsPartitions).map { entities =>
      entities.properties().asScala.flatMap { entity =>
        entity.getValue.properties().asScala.map { partition =>
          (entity.getKey, partition.getKey.toInt) -> partition.getValue.asText()
        }
      }.toMap
    }

  private def tellsPartitions(node: JsonNode): Boolean =
    node.isObject && node.elements().asScala.forall { entity =>
      entity.isObject && entity.properties().asScala.forall { partition =>
        val offset = partition.getValue
        partition.getKey.nonEmpty && partition.getKey.forall(_.isDigit) && (offset.isIntegralNumber || offset.isTextual || offset.isNull)
      }
    }
}
