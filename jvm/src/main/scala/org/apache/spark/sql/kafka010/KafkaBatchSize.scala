package org.apache.spark.sql.kafka010

import org.apache.spark.sql.connector.read.InputPartition

/** Number of Kafka records in a batch, known before they are read. */
object KafkaBatchSize {

  /** The records of a partition, with the marks of transactions; None of another source's. */
  def of(partition: InputPartition): Option[Long] = partition match {
    case read: KafkaBatchInputPartition => Some(read.offsetRange.size)
    case _                              => None
  }
}
