package org.apache.spark.sql.kafka010

import org.apache.spark.sql.connector.read.InputPartition

/** How many records a batch has of Kafka, known before it is read. */
object KafkaBatchSize {

  /** The records of a partition, with the marks of transactions; None of another source's. */
  def of(partition: InputPartition): Option[Long] = partition match {
    case read: KafkaBatchInputPartition => Some(read.offsetRange.size)
    case _                              => None
  }
}
