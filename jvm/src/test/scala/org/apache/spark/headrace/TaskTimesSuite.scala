package org.apache.spark.headrace

import java.util.Properties

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.{ExecutorLostFailure, Success, TaskEndReason, TaskState}
import org.apache.spark.executor.{ExecutorMetrics, TaskMetrics}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import io.headrace.spark.PatientSuite
import io.headrace.spark.SparkTesting.{running, spark}

class TaskTimesSuite extends PatientSuite {
  import spark.implicits._

  /** Times of tasks by a clock of the test. */
  private final class Measured {
    var now = 0L
    val times = new TaskTimes(() => now)

    def submit(stage: Int, query: String): Unit = {
      val properties = new Properties
      properties.setProperty(TaskTimes.Query, query)
      times.onStageSubmitted(SparkListenerStageSubmitted(info(stage), properties))
    }

    def start(stage: Int, id: Long): TaskInfo = {
      val task = new TaskInfo(id, 0, 0, 0, now, "driver", "localhost", TaskLocality.ANY, false)
      times.onTaskStart(SparkListenerTaskStart(stage, 0, task))
      task
    }

    def end(stage: Int, task: TaskInfo, cpuMs: Option[Long], reason: TaskEndReason = Success): Unit = {
      task.markFinished(if (reason == Success) TaskState.FINISHED else TaskState.FAILED, now)
      val metrics = cpuMs.map { ms =>
        val reported = TaskMetrics.empty
        reported.setExecutorCpuTime(ms * 1000000)
        reported
      }
      times.onTaskEnd(SparkListenerTaskEnd(stage, 0, "", reason, task, new ExecutorMetrics, metrics.orNull))
    }

    def complete(stage: Int): Unit = times.onStageCompleted(SparkListenerStageCompleted(info(stage)))

    def taken(): Map[String, (Long, Long)] = TaskTimesSuite.read(times.take())

    private def info(stage: Int) =
      new StageInfo(stage, 0, "", 1, Nil, Nil, "", resourceProfileId = ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID)
  }

  test("the times of tasks are those of the query of their job, each taken once") {
    val measured = new Measured
    measured.submit(1, "a")
    measured.submit(2, "b")
    val (first, second, other) = (measured.start(1, 10), measured.start(1, 11), measured.start(2, 12))
    measured.now = 300
    measured.end(1, first, Some(200))
    measured.end(2, other, Some(10))
    measured.now = 500
    measured.end(1, second, Some(1))
    measured.complete(1)
    assertEquals(measured.taken(), Map("a" -> (800L, 201L), "b" -> (300L, 10L)))
    assertEquals(measured.taken(), Map.empty[String, (Long, Long)])
    // A stage that runs again, and one that nobody has announced.
    measured.start(2, 13)
    measured.start(9, 14)
    measured.now = 600
    assertEquals(measured.taken(), Map("b" -> (100L, 0L), "" -> (100L, 0L)))
  }

  test("a task counts while it runs, and its processor time at its end") {
    val measured = new Measured
    measured.submit(1, "a")
    val task = measured.start(1, 10)
    measured.now = 1000
    assertEquals(measured.taken(), Map("a" -> (1000L, 0L)))
    measured.now = 1500
    measured.end(1, task, Some(700))
    measured.now = 9000
    assertEquals(measured.taken(), Map("a" -> (500L, 700L)))
  }

  test("a task that fails counts, also without figures of its executor") {
    val measured = new Measured
    measured.submit(1, "a")
    val (failed, lost) = (measured.start(1, 10), measured.start(1, 11))
    measured.now = 40
    measured.end(1, failed, Some(30), ExecutorLostFailure("1", exitCausedByApp = false, None))
    measured.end(1, lost, None, ExecutorLostFailure("1", exitCausedByApp = false, None))
    assertEquals(measured.taken(), Map("a" -> (80L, 30L)))
  }

  test("a task whose end is never reported counts until its stage has ended, and a later end counts what it adds") {
    val measured = new Measured
    measured.submit(1, "a")
    measured.start(1, 10)
    val killed = measured.start(1, 11)
    measured.now = 100
    measured.complete(1)
    measured.now = 5000
    assertEquals(measured.taken(), Map("a" -> (200L, 0L)))
    measured.now = 5100
    measured.end(1, killed, Some(60), ExecutorLostFailure("1", exitCausedByApp = false, None))
    assertEquals(measured.taken(), Map("a" -> (5000L, 60L)))
    assertEquals(measured.taken(), Map.empty[String, (Long, Long)])
  }

  test("batches of a streaming query count as the query of the thread that has started it") {
    val context = spark.sparkContext
    val times = TaskTimes.measure(context)
    try {
      val stream = MemoryStream[Int](spark)
      context.setLocalProperty(TaskTimes.Query, "mine")
      val start = System.nanoTime()
      running(stream.toDF()) { run =>
        // Spark has started the query, with the properties of this thread.
        run.query
        context.setLocalProperty(TaskTimes.Query, null)
        stream.addData(1 to 10000)
        assertEquals(run.rows().size, 10000)
      }
      Listeners.drain(context)
      val elapsedMs = (System.nanoTime() - start) / 1000000
      val (slotMs, cpuMs) = TaskTimesSuite.read(times.take())("mine")
      assert(slotMs > 0 && slotMs <= 2 * (elapsedMs + 1), s"$slotMs ms in two slots within $elapsedMs ms")
      assert(cpuMs > 0 && cpuMs <= 2 * (elapsedMs + 1), s"$cpuMs ms of two processors within $elapsedMs ms")
    } finally {
      context.setLocalProperty(TaskTimes.Query, null)
      context.removeSparkListener(times)
    }
  }
}

private object TaskTimesSuite {
  private val mapper = new ObjectMapper()

  /** The milliseconds in slots, and of processors, by query. */
  def read(taken: String): Map[String, (Long, Long)] =
    mapper
      .readTree(taken)
      .properties()
      .asScala
      .map(entry => entry.getKey -> (entry.getValue.path("slot_ms").asLong, entry.getValue.path("cpu_ms").asLong))
      .toMap
}
