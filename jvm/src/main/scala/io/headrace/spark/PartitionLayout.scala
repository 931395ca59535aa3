package io.headrace.spark

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.spark.headrace.{Question, Questions}

/** Mapping of (entity, partition) pairs of a source (a topic's partitions, a stream's shards) to the small integers
  * that fit into [[EventTimeCode]].
  */
private[spark] sealed abstract class PartitionLayout {

  /** The code of a partition. Throws IllegalArgumentException for an entity that is not of the source, and where no code is left. */
  def code(entity: String, partition: Int): Int

  /** The (entity, partition) that has `code`. */
  def decode(code: Int): (String, Int)
}

/** Layout of a source of one entity: a partition's number is its code. */
private[spark] final case class OneEntity(name: String) extends PartitionLayout {
  override def code(entity: String, partition: Int): Int = {
    require(entity == name, s"expected the entity $name in the offsets of the source, found $entity")
    require(
      partition >= 0 && partition < EventTimeCode.PartitionLimit,
      s"expected at most ${EventTimeCode.PartitionLimit} partitions in $entity, since a watermark follows no more of one source, " +
        s"found the number $partition"
    )
    partition
  }

  override def decode(code: Int): (String, Int) = (name, code)
}

/** Layout of a source of several entities, to which more may come while the query runs: each new partition gets the
  * next code.
  */
private[spark] final class ManyEntities extends PartitionLayout {
  private val codes = new ConcurrentHashMap[(String, Int), Integer]()
  private val places = mutable.ArrayBuffer.empty[(String, Int)]

  override def code(entity: String, partition: Int): Int = codes.computeIfAbsent((entity, partition), next)

  override def decode(code: Int): (String, Int) = places.synchronized(places(code))

  private def next(place: (String, Int)): Integer = places.synchronized {
    require(
      places.size < EventTimeCode.PartitionLimit,
      s"expected at most ${EventTimeCode.PartitionLimit} partitions in the entities of one source, since a watermark follows no more, " +
        s"found ${place._1} with the partition ${place._2}"
    )
    places += place
    places.size - 1
  }
}

/** Layouts of the driver: the watermark of a run and its tasks give a partition the same code. */
private[spark] object ManyEntities {
  private val layouts = new ConcurrentHashMap[String, ManyEntities]()

  /** The layout of this name, made at its first use. */
  def of(name: String): ManyEntities = layouts.computeIfAbsent(name, _ => new ManyEntities)

  /** Lets it go, once the run has ended that it was for. */
  def forget(name: String): Unit = { val _ = layouts.remove(name) }
}

/** Lookup of a row's partition code in a task, which asks the driver once for each partition that it reads. */
private[spark] final class PartitionCode(layout: String) extends ((String, Int) => Int) with Serializable {
  @transient private lazy val codes = new ConcurrentHashMap[(String, Int), Integer]()

  override def apply(entity: String, partition: Int): Int = codes.computeIfAbsent((entity, partition), _ => asked(entity, partition))

  private def asked(entity: String, partition: Int): Integer = Questions.ask(CodeOf(layout, entity, partition))
}

private[spark] final case class CodeOf(layout: String, entity: String, partition: Int) extends Question[Integer] {
  override def answer(): Integer = ManyEntities.of(layout).code(entity, partition)
}
