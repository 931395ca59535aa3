package io.headrace.spark

/** How (entity, partition) pairs of one source (a topic's partitions, a stream's shards) become the small integers that [[EventTimeCode]] has room for.
  *
  * Every entity owns an equal range of codes, so that an entity can gain partitions while the query runs without
  * touching the codes of another. Entities are ordered by name: the same set of entities gives the same codes.
  */
private[spark] final case class PartitionLayout(entities: Vector[String]) {
  require(entities.nonEmpty, "expected at least one entity of which to follow the watermark")
  require(
    entities.size <= EventTimeCode.PartitionLimit,
    s"expected at most ${EventTimeCode.PartitionLimit} entities in one source, found ${entities.size}"
  )

  private val indexes: Map[String, Int] = entities.zipWithIndex.toMap

  /** How many partitions each entity can have. */
  val partitionsPerEntity: Int = EventTimeCode.PartitionLimit / entities.size

  /** The code of the first partition of `entity`, or None for an entity that is not part of the source. */
  def base(entity: String): Option[Int] = indexes.get(entity).map(_ * partitionsPerEntity)

  /** The code of a partition.
    *
    * Throws IllegalArgumentException when the source has no such entity or the entity has no room for the partition.
    */
  def code(entity: String, partition: Int): Int = {
    val first = base(entity).getOrElse(
      throw new IllegalArgumentException(
        s"expected one of the entities ${entities.mkString(", ")} in the offsets of the source, found $entity"
      )
    )
    require(
      partition >= 0 && partition < partitionsPerEntity,
      s"expected at most $partitionsPerEntity partitions in entity $entity (${entities.size} entities share " +
        s"${EventTimeCode.PartitionLimit} in one source), found partition $partition"
    )
    first + partition
  }

  /** The (entity, partition) that has `code`. */
  def decode(code: Int): (String, Int) = (entities(code / partitionsPerEntity), code % partitionsPerEntity)
}

private[spark] object PartitionLayout {
  def of(entities: Iterable[String]): PartitionLayout = PartitionLayout(entities.toVector.distinct.sorted)
}
