package io.headrace.spark

/** How (topic, partition) pairs of one source become the small integers that [[EventTimeCode]] has room for.
  *
  * Every topic owns an equal range of codes, so that a topic can gain partitions while the query runs without
  * touching the codes of another. Topics are ordered by name: the same set of topics gives the same codes.
  */
private[spark] final case class PartitionLayout(topics: Vector[String]) {
  require(topics.nonEmpty, "expected at least one topic of which to follow the watermark")
  require(
    topics.size <= EventTimeCode.PartitionLimit,
    s"expected at most ${EventTimeCode.PartitionLimit} topics in one source, found ${topics.size}"
  )

  private val indexes: Map[String, Int] = topics.zipWithIndex.toMap

  /** How many partitions each topic can have. */
  val partitionsPerTopic: Int = EventTimeCode.PartitionLimit / topics.size

  /** The code of the first partition of `topic`, or None for a topic that is not part of the source. */
  def base(topic: String): Option[Int] = indexes.get(topic).map(_ * partitionsPerTopic)

  /** The code of a partition.
    *
    * Throws IllegalArgumentException when the source has no such topic or the topic has no room for the partition.
    */
  def code(topic: String, partition: Int): Int = {
    val first = base(topic).getOrElse(
      throw new IllegalArgumentException(
        s"expected one of the topics ${topics.mkString(", ")} in the offsets of the source, found $topic"
      )
    )
    require(
      partition >= 0 && partition < partitionsPerTopic,
      s"expected at most $partitionsPerTopic partitions in topic $topic (${topics.size} topics share " +
        s"${EventTimeCode.PartitionLimit} in one source), found partition $partition"
    )
    first + partition
  }

  /** The (topic, partition) that has `code`. */
  def decode(code: Int): (String, Int) = (topics(code / partitionsPerTopic), code % partitionsPerTopic)
}

private[spark] object PartitionLayout {
  def of(topics: Iterable[String]): PartitionLayout = PartitionLayout(topics.toVector.distinct.sorted)
}
