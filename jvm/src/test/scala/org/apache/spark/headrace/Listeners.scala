package org.apache.spark.headrace

import org.apache.spark.SparkContext

object Listeners {
  /** Waits until the listeners have heard of all that has happened: Spark hides its bus. */
  def drain(context: SparkContext): Unit = context.listenerBus.waitUntilEmpty()
}
