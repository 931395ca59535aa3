package io.headrace.spark

import scala.collection.mutable

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.util.AccumulatorV2

/** Counters of a query's expressions while its batches run, by batch.
  *
  * A batch that did not end well runs again and is counted again: so whoever reports takes the counts of the batches
  * that are done, and of no others. Rows of a stage that Spark ran twice within a batch are counted twice.
  */
private[spark] final class RowCounts extends AccumulatorV2[String, Map[(Long, String), Long]] {
  private val counts = mutable.HashMap.empty[(Long, String), Long]
  private val spellings = mutable.TreeMap.empty[String, String]
  private val oldest = mutable.HashMap.empty[Long, Long]

  /** Task: one row of the kind `name`. */
  override def add(name: String): Unit = synchronized(raise((SparkInternals.taskBatch(TaskContext.get()), name), 1L))

  /** Task: a sum of bytes of the kind `name`, which is counted when the task ends. */
  def newSum(name: String): ByteSum = {
    val sum = new ByteSum
    Option(TaskContext.get()).foreach { task =>
      val batch = SparkInternals.taskBatch(task)
      task.addTaskCompletionListener[Unit](_ => synchronized(raise((batch, name), sum.value)))
    }
    sum
  }

  /** Task: a field was found that differs from a column's name in case only. */
  def spelled(field: String, column: String): Unit = synchronized {
    if (spellings.size < RowCounts.SpellingsKept) spellings.put(field, column)
  }

  /** Task: a record of this time, in microseconds since the epoch, which may be the oldest one of its batch. */
  def seen(micros: Long): Unit = synchronized(age(SparkInternals.taskBatch(TaskContext.get()), micros))

  private def age(batch: Long, micros: Long): Unit = oldest.update(batch, math.min(micros, oldest.getOrElse(batch, Long.MaxValue)))

  /** Takes out the time of the oldest record of each batch up to `batch`. */
  private def oldestUpTo(batch: Long): Map[Long, Long] = synchronized {
    val taken = oldest.filter(_._1 <= batch).toMap
    oldest --= taken.keys
    taken
  }

  private def raise(key: (Long, String), by: Long): Unit = counts.update(key, counts.getOrElse(key, 0L) + by)

  /** Takes out what batches up to `batch` counted: name -> rows. */
  private def takeUpTo(batch: Long): Map[String, Long] = synchronized {
    val taken = counts.filter(_._1._1 <= batch).toMap
    counts --= taken.keys
    taken.groupMapReduce(_._1._2)(_._2)(_ + _)
  }

  // A task registers an accumulator before it has read its fields, and the executor's heartbeat asks it then.
  override def isZero: Boolean =
    synchronized((counts == null || counts.isEmpty) && (spellings == null || spellings.isEmpty) && (oldest == null || oldest.isEmpty))

  override def reset(): Unit = synchronized {
    counts.clear()
    spellings.clear()
    oldest.clear()
  }

  override def copy(): RowCounts = synchronized {
    val copied = new RowCounts
    copied.counts ++= counts
    copied.spellings ++= spellings
    copied.oldest ++= oldest
    copied
  }

  override def merge(other: AccumulatorV2[String, Map[(Long, String), Long]]): Unit = other match {
    case more: RowCounts =>
      synchronized {
        more.counts.foreachEntry(raise)
        spellings ++= more.spellings
        more.oldest.foreachEntry(age)
      }
    case _ => throw new UnsupportedOperationException(s"cannot merge ${other.getClass.getName}")
  }

  override def value: Map[(Long, String), Long] = synchronized(counts.toMap)
}

/** An expression that counts rows. */
private[spark] trait CountsRows {
  def counts: RowCounts
}

object RowCounts {
  private val SpellingsKept = 100
  private val mapper = new ObjectMapper()

  /** A new instance, registered with the active session. */
  private[spark] def registered(): RowCounts = {
    val made = new RowCounts
    SparkSession.active.sparkContext.register(made)
    made
  }

  /** Takes what `query` counted in batches up to `batch`, as JSON: `{"counts": {name: rows}, "spellings": {field: column}}`, and with
    * records that have times, `"oldest": {batch: microseconds since the epoch}`.
    * What was taken is not told again, but for the spellings. Call it when a batch of the query has run.
    */
  def take(query: StreamingQuery, batch: Long): String = {
    val counters = SparkInternals.expressions(query).collect { case counting: CountsRows => counting.counts }.distinct
    val root = mapper.createObjectNode()
    val totals = root.putObject("counts")
    counters.flatMap(_.takeUpTo(batch)).groupMapReduce(_._1)(_._2)(_ + _).toSeq.sorted.foreach { case (name, rows) => totals.put(name, rows) }
    val spellings = root.putObject("spellings")
    counters.foreach(one => one.synchronized(one.spellings.foreach { case (field, column) => spellings.put(field, column) }))
    val oldest = counters.flatMap(_.oldestUpTo(batch)).groupMapReduce(_._1)(_._2)(math.min(_, _))
    if (oldest.nonEmpty) {
      val times = root.putObject("oldest")
      oldest.toSeq.sorted.foreach { case (number, micros) => times.put(number.toString, micros) }
    }
    mapper.writeValueAsString(root)
  }
}
