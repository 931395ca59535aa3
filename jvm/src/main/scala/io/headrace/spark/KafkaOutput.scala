package io.headrace.spark

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.kafka.clients.producer.{Producer, ProducerRecord}
import org.apache.spark.{InterruptibleIterator, TaskContext}
import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.catalyst.InternalRow

/** Sends the records of a batch through one Kafka producer: the inner loop of exactly-once output.
  *
  * The producer, and the transaction that is open in it, belong to the caller. All tasks of the batch share it, so that a
  * batch is one transaction; that takes tasks that run in this JVM, and each only once. [[KafkaBuckets]] is for other tasks.
  */
object KafkaOutput {
  type Bytes = Array[Byte]
  private[spark] type Record = ProducerRecord[Bytes, Bytes]

  private val producers = new ConcurrentHashMap[UUID, Producer[Bytes, Bytes]]()

  /** Sends each row of `records` (columns key and value, BINARY, and perhaps headers, an ARRAY of STRUCTs of key STRING
    * and value BINARY) to `topic`; returns how many there were.
    *
    * A record that cannot be delivered makes the commit of the transaction fail, not this call.
    */
  def send(records: DataFrame, producer: Producer[Bytes, Bytes], topic: String): Long = {
    val rows = records.asInstanceOf[classic.DataFrame].queryExecution.toRdd
    val id = UUID.randomUUID()
    producers.put(id, producer)
    val withHeaders = records.columns.length > 2
    try rows.sparkContext.runJob(rows, sendRows(id, topic, withHeaders) _).sum
    finally { val _ = producers.remove(id) }
  }

  private def sendRows(id: UUID, topic: String, withHeaders: Boolean)(task: TaskContext, rows: Iterator[InternalRow]): Long = {
    if (task.attemptNumber() > 0 || task.stageAttemptNumber() > 0)
      throw new IllegalStateException("expected no second attempt at a task that writes to Kafka: its batch must fail")
    val producer = Option(producers.get(id)).getOrElse(
      throw new IllegalStateException(
        "expected a task in the driver's own process, found one elsewhere: a cluster's tasks write in buckets"
      )
    )
    var sent = 0L
    new InterruptibleIterator(task, rows).foreach { row =>
      producer.send(record(topic, row, withHeaders))
      sent += 1
    }
    sent
  }

  /** The record of a row of [[send]]. */
  private[spark] def record(topic: String, row: InternalRow, withHeaders: Boolean): Record = {
    val key = if (row.isNullAt(0)) null else row.getBinary(0)
    val value = if (row.isNullAt(1)) null else row.getBinary(1)
    val record = new ProducerRecord[Bytes, Bytes](topic, key, value)
    if (withHeaders && !row.isNullAt(2)) {
      val headers = row.getArray(2)
      for (index <- 0 until headers.numElements()) {
        val header = headers.getStruct(index, 2)
        record.headers().add(header.getUTF8String(0).toString, header.getBinary(1))
      }
    }
    record
  }
}
