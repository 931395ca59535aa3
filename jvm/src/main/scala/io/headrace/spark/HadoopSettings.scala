package io.headrace.spark

import org.apache.hadoop.conf.Configuration

object HadoopSettings {

  /** Forgets of each setting from which file it came, which nobody asks for.
    *
    * Spark writes Hadoop's settings, hundreds, for each stateful operator of each batch, and Hadoop compresses the origin of
    * every one for itself: that takes longer than what a small batch does with its state.
    */
  def forgetOrigins(settings: Configuration): Unit = {
    // Else they are read, with their origins, when they are first asked for.
    val _ = settings.size()
    val origins = classOf[Configuration].getDeclaredField("updatingResource")
    origins.setAccessible(true)
    origins.set(settings, null)
  }
}
