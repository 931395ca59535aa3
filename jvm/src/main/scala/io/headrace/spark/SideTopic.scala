package io.headrace.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import com.google.common.cache.{CacheBuilder, RemovalNotification}
import org.apache.kafka.clients.producer.{Callback, KafkaProducer, ProducerRecord}
import org.apache.kafka.common.serialization.ByteArraySerializer
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

/** Topic beside a query's sink for the records that its tasks leave out.
  *
  * The broker has a task's records before the task ends. Where it does not take them the task fails and with it the batch,
  * which runs again: each record is there at least once.
  *
  * Expressions hold it, and take it to their tasks: each process has a producer of its own.
  */
private[spark] final class SideTopic(id: String, topic: String, query: String, options: java.util.HashMap[String, Object])
    extends Serializable {
  private val tasks = new ConcurrentHashMap[Long, AtomicReference[Exception]]()
  @volatile private var opened = false

  // Most queries never leave a record out.
  private lazy val producer = {
    opened = true
    new KafkaProducer(options, new ByteArraySerializer, new ByteArraySerializer)
  }

  /** Task: sends `record`, whose fields are [[SideTopic.Record]], with its `metadata` and what else there is to say as headers. */
  def send(record: InternalRow, metadata: Seq[(String, String)], more: (String, String)*): Unit = {
    val failure = tasks.computeIfAbsent(TaskContext.get().taskAttemptId(), _ => begin())
    refuse(failure)
    // The record's own time: it is read again as of when it was.
    val letter = new ProducerRecord[Array[Byte], Array[Byte]](
      topic,
      null,
      java.lang.Long.valueOf(math.max(0L, record.getLong(2) / 1000)),
      if (record.isNullAt(0)) null else record.getBinary(0),
      if (record.isNullAt(1)) null else record.getBinary(1)
    )
    if (!record.isNullAt(3)) {
      val headers = record.getArray(3)
      for (index <- 0 until headers.numElements()) {
        val header = headers.getStruct(index, 2)
        letter.headers().add(header.getUTF8String(0).toString, header.getBinary(1))
      }
    }
    def say(name: String, text: String): Unit = { val _ = letter.headers().add(s"headrace.$name", text.getBytes(UTF_8)) }
    (metadata ++ more).foreach { case (name, text) => say(name, text) }
    say("query", query)
    val sent: Callback = (_, error) => if (error != null) failure.set(error)
    try producer.send(letter, sent)
    catch { case error: Exception => failure.set(error) }
  }

  private def begin(): AtomicReference[Exception] = {
    val failure = new AtomicReference[Exception]()
    TaskContext.get().addTaskCompletionListener[Unit] { task =>
      tasks.remove(task.taskAttemptId())
      producer.flush()
      refuse(failure)
    }
    failure
  }

  private def refuse(failure: AtomicReference[Exception]): Unit = {
    val error = failure.get
    // Spark keeps no more than the message of what a listener throws.
    if (error != null) throw new IllegalStateException(s"cannot write the topic $topic beside the sink: $error", error)
  }

  private def close(): Unit = if (opened) producer.close(SideTopic.CloseTimeout)

  override def toString: String = topic // the options have secrets

  private def writeReplace(): AnyRef = new SideTopic.Reference(id, topic, query, options)
}

object SideTopic {

  /** The fields of a record as it came. */
  private[spark] val Record = Seq("key", "value", "timestamp", "headers")
  private val CloseTimeout = java.time.Duration.ofSeconds(2)
  private val open = new ConcurrentHashMap[String, SideTopic]()

  // Nobody closes those of other processes than the driver's.
  private val elsewhere = CacheBuilder
    .newBuilder()
    .expireAfterAccess(1, TimeUnit.HOURS)
    .removalListener((old: RemovalNotification[String, SideTopic]) => old.getValue.close())
    .build[String, SideTopic]()

  /** Lets expressions write to `topic` under `id`; `options` are the Kafka client's, and `query` names who writes. */
  def open(id: String, topic: String, query: String, options: java.util.Map[String, Object]): Unit = {
    val _ = open.put(id, new SideTopic(id, topic, query, new java.util.HashMap(options)))
  }

  /** No task writes under `id` any more. */
  def close(id: String): Unit = Option(open.remove(id)).foreach(_.close())

  /** Driver: the topic of this id. */
  private[spark] def of(id: String): SideTopic =
    Option(open.get(id)).getOrElse(throw new IllegalStateException("expected an open topic beside the sink, found none"))

  private final class Reference(id: String, topic: String, query: String, options: java.util.HashMap[String, Object]) extends Serializable {
    private def readResolve(): AnyRef =
      Option(open.get(id)).getOrElse(elsewhere.get(id, () => new SideTopic(id, topic, query, options)))
  }
}
