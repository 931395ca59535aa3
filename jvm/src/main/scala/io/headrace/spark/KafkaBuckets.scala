package io.headrace.spark

import java.time.Duration
import java.util.{HashMap => JavaHashMap, List => JavaList, Map => JavaMap, Set => JavaSet}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.common.cache.{CacheBuilder, RemovalNotification}
import org.apache.kafka.clients.consumer.{ConsumerGroupMetadata, KafkaConsumer, OffsetAndMetadata}
import org.apache.kafka.clients.producer.KafkaProducer
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.serialization.{ByteArrayDeserializer, ByteArraySerializer}
import org.apache.spark.{InterruptibleIterator, Partition, SparkEnv, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions.{coalesce, col}

/** Exactly-once output to Kafka from tasks in any process: a batch is written in buckets, each by one task and in a transaction of
  * its own, with a marker inside. ADR 68 gives the reasons.
  *
  * @param names   the buckets: of each its transactional id, which is also the group of its marker
  * @param options the options of Kafka's clients, with secrets: they reach other processes inside of tasks only
  */
final class KafkaBuckets(topic: String, names: JavaList[String], options: JavaMap[String, Object]) {
  private val buckets = names.asScala.map(Bucket(_, topic, new JavaHashMap(options))).toIndexedSeq

  /** The process that wrote each bucket last, and so has an open writer that nobody has fenced. */
  private var processes = IndexedSeq.fill(buckets.size)(Option.empty[WriterProcess])

  /** Writes the rows of `records` (as for [[KafkaOutput.send]]), but for the buckets that an earlier attempt at `epoch` has written. */
  def write(records: DataFrame, epoch: Long): Unit = {
    // NULL keys go by their values. A round robin would give a repeated attempt other rows.
    val parts = records.repartition(buckets.size, coalesce(col("key"), col("value")))
    val rows = new BucketRows(parts.asInstanceOf[classic.DataFrame].queryExecution.toRdd, processes)
    val task = new BucketTask(buckets, processes, epoch, withHeaders = records.columns.length > 2)
    val wrote = rows.sparkContext.runJob(rows, task.write _)
    processes = processes.zip(wrote).map { case (before, now) => now.orElse(before) }
  }
}

/** An executor with an open writer. */
private final case class WriterProcess(host: String, executor: String)

/** `rows`, a partition for each bucket, which prefer the process that has the bucket's writer. */
private final class BucketRows(rows: RDD[InternalRow], processes: IndexedSeq[Option[WriterProcess]]) extends RDD[InternalRow](rows) {
  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = firstParent[InternalRow].iterator(split, task)

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    processes(split.index).map(process => s"executor_${process.host}_${process.executor}").toSeq
}

/** Work of the tasks that write an epoch. */
private final class BucketTask(
    buckets: IndexedSeq[Bucket],
    processes: IndexedSeq[Option[WriterProcess]],
    epoch: Long,
    withHeaders: Boolean
) extends Serializable {

  /** Write the rows of one bucket, and return where; None without rows, for then there is nothing to write or to mark. */
  def write(task: TaskContext, rows: Iterator[InternalRow]): Option[WriterProcess] = Option.when(rows.hasNext) {
    val bucket = buckets(task.partitionId())
    val process = WriterProcess(SparkEnv.get.blockManager.blockManagerId.host, SparkEnv.get.executorId)
    val isFirstAttempt = task.attemptNumber() == 0 && task.stageAttemptNumber() == 0
    val writer = BucketWriters.take(bucket, isOpen = isFirstAttempt && processes(task.partitionId()).contains(process))
    try writer.write(epoch, new InterruptibleIterator(task, rows).map(KafkaOutput.record(bucket.topic, _, withHeaders)))
    catch {
      // It is unknown what the broker has: the next attempt opens a writer, and so reads the marker.
      case error: Throwable =>
        writer.close()
        throw error
    }
    BucketWriters.keep(bucket, writer)
    process
  }
}

/** A bucket of an output: equal for equal clients. */
private final case class Bucket(name: String, topic: String, options: JavaHashMap[String, Object]) {
  override def toString: String = name // the options have secrets
}

/** Writers of this process that no task uses: opening one costs a few requests. */
private object BucketWriters {
  private val IdleMinutes = 10L
  private val idle = CacheBuilder
    .newBuilder()
    .expireAfterWrite(IdleMinutes, TimeUnit.MINUTES)
    .removalListener((old: RemovalNotification[Bucket, BucketWriter]) => if (old.wasEvicted) old.getValue.close())
    .build[Bucket, BucketWriter]()

  /** A writer for the caller alone; a new one unless the bucket's last writer `isOpen` here. */
  def take(bucket: Bucket, isOpen: Boolean): BucketWriter = {
    val kept = Option(idle.asMap.remove(bucket))
    if (!isOpen) kept.foreach(_.close())
    kept.filter(_ => isOpen).getOrElse(new BucketWriter(bucket))
  }

  def keep(bucket: Bucket, writer: BucketWriter): Unit = Option(idle.asMap.put(bucket, writer)).foreach(_.close())
}

/** The transactions of one bucket.
  *
  * While nobody has fenced it, it is the bucket's only writer, and so knows the marker. The transaction of a writer that was fenced
  * fails.
  */
private final class BucketWriter(bucket: Bucket) {
  private val place = new TopicPartition(bucket.topic, 0)
  private val producer = {
    val options = new JavaHashMap[String, Object](bucket.options)
    options.put("transactional.id", bucket.name)
    new KafkaProducer(options, new ByteArraySerializer, new ByteArraySerializer)
  }
  private var nextEpoch =
    try {
      // Fences every earlier writer, and ends the transaction that one may have left open; the marker cannot move after that.
      producer.initTransactions()
      marker()
    } catch {
      case error: Throwable =>
        close()
        throw error
    }

  /** Writes `records` and the marker in one transaction, unless the marker is past `epoch`. */
  def write(epoch: Long, records: Iterator[KafkaOutput.Record]): Unit = if (nextEpoch <= epoch) {
    producer.beginTransaction()
    try {
      records.foreach(producer.send)
      producer.sendOffsetsToTransaction(JavaMap.of(place, new OffsetAndMetadata(epoch + 1)), new ConsumerGroupMetadata(bucket.name))
      producer.commitTransaction()
    } catch {
      case error: Throwable =>
        // Readers of committed records wait at an open transaction. The first error matters, not one of the abort.
        try producer.abortTransaction()
        catch { case NonFatal(_) => }
        throw error
    }
    nextEpoch = epoch + 1
  }

  def close(): Unit = producer.close(BucketWriter.CloseTimeout)

  private def marker(): Long = {
    val options = new JavaHashMap[String, Object](bucket.options)
    options.put("group.id", bucket.name)
    options.put("isolation.level", "read_committed")
    val consumer = new KafkaConsumer(options, new ByteArrayDeserializer, new ByteArrayDeserializer)
    try Option(consumer.committed(JavaSet.of(place)).get(place)).fold(0L)(_.offset)
    finally consumer.close()
  }
}

private object BucketWriter {
  private val CloseTimeout = Duration.ofSeconds(2)
}
