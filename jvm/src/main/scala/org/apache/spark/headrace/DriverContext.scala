package org.apache.spark.headrace

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.api.java.JavaSparkContext

/** Spark's context, which takes closures as they are.
  *
  * Spark reads the bytecode of each closure, and writes it with the plan in it, to see that a user's can be sent: a
  * twelfth of a small batch (ADR 42). Ours are Spark's own and this extension's. One that cannot be sent still fails,
  * when it is.
  */
private[spark] final class DriverContext(conf: SparkConf) extends SparkContext(conf) {
  override private[spark] def clean[F <: AnyRef](closure: F, checkSerializable: Boolean): F = closure
}

object DriverContext {

  /** Called by Python, which starts its session with it. */
  def start(conf: SparkConf): JavaSparkContext = {
    val context = new DriverContext(conf)
    Questions.serve(context.env.rpcEnv)
    new JavaSparkContext(context)
  }
}
