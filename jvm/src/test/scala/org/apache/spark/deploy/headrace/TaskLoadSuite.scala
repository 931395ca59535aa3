package org.apache.spark.deploy.headrace

import java.util.Properties

import org.apache.spark.{Success, TaskEndReason, TaskKilled}
import org.apache.spark.executor.ExecutorMetrics
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._

class TaskLoadSuite extends munit.FunSuite {
  private var now = 0L
  private val load = new TaskLoad(() => now)

  private def stage(id: Int, tasks: Int) =
    new StageInfo(id, 0, "", tasks, Nil, Nil, "", resourceProfileId = ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID)

  private def start(): Unit = load.onTaskStart(SparkListenerTaskStart(1, 0, null))

  private def end(reason: TaskEndReason = Success): Unit =
    load.onTaskEnd(SparkListenerTaskEnd(1, 0, "", reason, null, new ExecutorMetrics, null))

  private def pass(milliseconds: Long): Unit = now += milliseconds * 1000000

  test("the load is the mean of the tasks that run, and the most that run or wait") {
    assertEquals(load.read().toSeq, Seq(0.0, 0.0))
    load.onStageSubmitted(SparkListenerStageSubmitted(stage(1, 3), new Properties))
    start()
    pass(500)
    start()
    pass(250)
    end()
    end(TaskKilled("lost"))
    pass(1250)
    assertEquals(load.read().toSeq, Seq(0.5, 3.0))
    // One has not started, and one starts again.
    start()
    pass(1000)
    assertEquals(load.read().toSeq, Seq(1.0, 2.0))
    end()
    load.onStageCompleted(SparkListenerStageCompleted(stage(1, 3)))
    pass(1000)
    load.read()
    pass(1000)
    assertEquals(load.read().toSeq, Seq(0.0, 0.0))
  }
}
