package io.headrace.spark

import java.lang.management.ManagementFactory

import org.apache.spark.sql.headrace.SparkInternals
import org.apache.spark.sql.streaming.StreamingQuery

/** Processor time of threads in ms, which unlike time on the clock does not depend on other processes. */
object ProcessorTime {
  private val threads = ManagementFactory.getThreadMXBean

  // By reflection: the compiler refuses what Java 19 has deprecated, and Java 17 lacks its successor.
  private val threadId = classOf[Thread].getMethod("getId")

  /** The id of the thread that serves the caller: each of Python's threads has one of its own. */
  def currentThread(): Long = id(Thread.currentThread)

  /** The id of the thread that plans the batches of a running query. */
  def batchThread(query: StreamingQuery): Long = id(SparkInternals.batchThread(query))

  /** Processor time of the thread with this id; 0 when it has ended. */
  def usedMs(thread: Long): Long = math.max(0L, threads.getThreadCpuTime(thread)) / 1000000

  private def id(thread: Thread): Long = threadId.invoke(thread).asInstanceOf[Long]
}
