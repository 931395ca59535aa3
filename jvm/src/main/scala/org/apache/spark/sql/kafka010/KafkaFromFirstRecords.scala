package org.apache.spark.sql.kafka010

import java.util.{Map => JMap, Optional}

import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Spark's Kafka source, for topics and partitions that it meets after its query began.
  *
  * Spark takes it that each of them begins at offset 0, and calls anything else lost data. But a topic that comes to match a
  * pattern may be older than what it keeps: it is read from its first record, as `earliest` has it for those of the start.
  * What expires after that, before it was read, is still lost data.
  */
class KafkaFromFirstRecords extends KafkaSourceProvider {

  override def getTable(options: CaseInsensitiveStringMap): KafkaTable =
    new KafkaTable(options.getBoolean(KafkaSourceProvider.INCLUDE_HEADERS, false)) {
      override def newScanBuilder(scanned: CaseInsensitiveStringMap): ScanBuilder = () =>
        new KafkaScan(scanned) {
          override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
            new FromFirstRecords(super.toMicroBatchStream(checkpoint).asInstanceOf[KafkaMicroBatchStream])
        }
    }
}

/** `kafka`, whose start offsets name every partition before they come to it. */
private class FromFirstRecords(kafka: KafkaMicroBatchStream)
    extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with SupportsRealTimeMode
    with ReportsSourceMetrics {

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    kafka.planInputPartitions(complete(start, end), end)

  override def planInputPartitions(start: Offset): Array[InputPartition] =
    kafka.planInputPartitions(Option(kafka.reportLatestOffset()).fold(start)(complete(start, _)))

  /** `start`, with the first offset of the partitions that only `end` has; one that is gone again stays out. */
  private def complete(start: Offset, end: Offset): Offset = {
    val known = start.asInstanceOf[KafkaSourceOffset].partitionToOffsets
    val added = end.asInstanceOf[KafkaSourceOffset].partitionToOffsets.keySet -- known.keySet
    if (added.isEmpty) start else KafkaSourceOffset(known ++ kafka.kafkaOffsetReader.fetchEarliestOffsets(added.toSeq))
  }

  override def initialOffset(): Offset = kafka.initialOffset()
  override def latestOffset(): Offset = kafka.latestOffset()
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = kafka.latestOffset(start, limit)
  override def reportLatestOffset(): Offset = kafka.reportLatestOffset()
  override def getDefaultReadLimit: ReadLimit = kafka.getDefaultReadLimit
  override def prepareForTriggerAvailableNow(): Unit = kafka.prepareForTriggerAvailableNow()
  override def prepareForRealTimeMode(): Unit = kafka.prepareForRealTimeMode()
  override def mergeOffsets(offsets: Array[PartitionOffset]): Offset = kafka.mergeOffsets(offsets)
  override def createReaderFactory(): PartitionReaderFactory = kafka.createReaderFactory()
  override def deserializeOffset(json: String): Offset = kafka.deserializeOffset(json)
  override def commit(end: Offset): Unit = kafka.commit(end)
  override def stop(): Unit = kafka.stop()
  override def metrics(latestConsumed: Optional[Offset]): JMap[String, String] = kafka.metrics(latestConsumed)
  override def toString: String = kafka.toString
}
