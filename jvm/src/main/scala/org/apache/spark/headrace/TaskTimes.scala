package org.apache.spark.headrace

import scala.collection.mutable

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.SparkContext
import org.apache.spark.scheduler._

/** Measures, by query, how long tasks occupied slots and how much processor time they used, on whichever machine they ran.
  *
  * The query is the local property [[TaskTimes.Query]] of the thread that ran the job; tasks without it count as the query `""`. The time
  * in a slot is that of the driver's clock between the launch and the end of a task, and grows while the task runs: a task in real-time
  * mode runs for a whole checkpoint interval. The processor time is that of the task's thread, which Spark reports when the task ends.
  */
final class TaskTimes(clock: () => Long = () => System.currentTimeMillis()) extends SparkListener {
  import TaskTimes._

  private val ofStage = mutable.HashMap.empty[(Int, Int), String]
  private val running = mutable.LongMap.empty[Running]
  private val sums = mutable.HashMap.empty[String, Sum]

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit = synchronized {
    val query = Option(event.properties).flatMap(properties => Option(properties.getProperty(Query)))
    ofStage((event.stageInfo.stageId, event.stageInfo.attemptNumber())) = query.getOrElse("")
  }

  override def onTaskStart(event: SparkListenerTaskStart): Unit = synchronized {
    val stage = (event.stageId, event.stageAttemptId)
    running(event.taskInfo.taskId) = new Running(stage, ofStage.getOrElse(stage, ""), event.taskInfo.launchTime)
  }

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = synchronized {
    // One that is not known ran before this began to measure.
    running.remove(event.taskInfo.taskId).foreach { task =>
      val sum = sums.getOrElseUpdate(task.query, new Sum)
      sum.slotMs += math.max(0L, event.taskInfo.finishTime - task.launch)
      // An executor that was lost has reported none.
      Option(event.taskMetrics).foreach(metrics => sum.cpuNs += metrics.executorCpuTime + metrics.executorDeserializeCpuTime)
    }
  }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = synchronized {
    val stage = (event.stageInfo.stageId, event.stageInfo.attemptNumber())
    ofStage -= stage
    // Spark drops events when it has too many: a task whose end is missing must not count for ever.
    running.valuesIterator.filter(_.stage == stage).foreach(_.until = clock())
  }

  /** The time since the last call, of each query with any: `{query: {"slot_ms": …, "cpu_ms": …}}`. */
  def take(): String = synchronized {
    val now = clock()
    val unfinished = running.values.groupMapReduce(_.query)(task => math.max(0L, math.min(now, task.until) - task.launch))(_ + _)
    val root = mapper.createObjectNode()
    unfinished.keys.foreach(sums.getOrElseUpdate(_, new Sum))
    sums.filterInPlace { (query, sum) =>
      val (slotMs, cpuMs) = sum.take(unfinished.getOrElse(query, 0L))
      val grew = slotMs > 0 || cpuMs > 0
      if (grew) root.putObject(query).put("slot_ms", slotMs).put("cpu_ms", cpuMs)
      // Queries of readers come and go.
      grew || unfinished.contains(query)
    }
    mapper.writeValueAsString(root)
  }
}

object TaskTimes {

  /** The local property of a thread whose jobs are of this query. */
  val Query = "headrace.query"

  private val mapper = new ObjectMapper()

  /** Measures the tasks of a context from now on. */
  def measure(context: SparkContext): TaskTimes = {
    val times = new TaskTimes
    context.addSparkListener(times)
    times
  }

  private final class Running(val stage: (Int, Int), val query: String, val launch: Long) {
    var until: Long = Long.MaxValue
  }

  private final class Sum {
    var slotMs, cpuNs = 0L
    private var takenSlotMs, takenCpuMs = 0L

    /** The milliseconds since the last call, where tasks that run have `unfinishedMs`. */
    def take(unfinishedMs: Long): (Long, Long) = {
      // A task that has ended may have counted some milliseconds more, until its end was heard of.
      val slot = math.max(0L, slotMs + unfinishedMs - takenSlotMs)
      val cpu = cpuNs / 1000000 - takenCpuMs
      takenSlotMs += slot
      takenCpuMs += cpu
      (slot, cpu)
    }
  }
}
