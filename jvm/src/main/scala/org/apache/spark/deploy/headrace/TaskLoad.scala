package org.apache.spark.deploy.headrace

import scala.collection.mutable

import org.apache.spark.Success
import org.apache.spark.scheduler._

/** Measures how many tasks of a context run at once on average, and how many ran or waited for a slot at most.
  *
  * A count of running tasks now and then says little: a task of a small batch runs for some milliseconds.
  */
final class TaskLoad(clock: () => Long = () => System.nanoTime()) extends SparkListener {
  private val waiting = mutable.Map.empty[(Int, Int), Int]
  private var running = 0
  private var most = 0
  private var busy = 0L
  private var begin, last = clock()

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit = synchronized {
    waiting((event.stageInfo.stageId, event.stageInfo.attemptNumber())) = event.stageInfo.numTasks
    look()
  }

  override def onTaskStart(event: SparkListenerTaskStart): Unit = synchronized {
    look()
    running += 1
    waits(event.stageId, event.stageAttemptId, -1)
    look()
  }

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = synchronized {
    look()
    running = math.max(0, running - 1)
    if (event.reason != Success) waits(event.stageId, event.stageAttemptId, 1)
  }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = synchronized {
    waiting -= ((event.stageInfo.stageId, event.stageInfo.attemptNumber()))
  }

  /** The mean number of tasks that ran since the last reading, and the most tasks that ran or waited at once. */
  def read(): Array[Double] = synchronized {
    look()
    val answer = Array(if (last > begin) busy.toDouble / (last - begin) else 0, most.toDouble)
    begin = last
    busy = 0
    most = 0
    look()
    answer
  }

  private def look(): Unit = {
    val now = clock()
    busy += running * (now - last)
    last = now
    most = math.max(most, running + waiting.values.sum)
  }

  private def waits(stage: Int, attempt: Int, change: Int): Unit =
    waiting.updateWith((stage, attempt))(_.map(count => math.max(0, count + change)))
}
