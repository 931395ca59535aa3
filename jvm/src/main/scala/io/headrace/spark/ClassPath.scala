package io.headrace.spark

/** The class path of the JVM that runs: jars of a store type come onto it when its first query does. */
object ClassPath {

  /** Adds a jar, which all of Spark then has: the loader is the one of Spark's own classes.
    *
    * Spark's `addJar` would make a loader for executors and another for sessions, and an object of one is none of the other's.
    * The method is the JVM's own for agents; the command line opens its package to us.
    */
  def add(jar: String): Unit = {
    val loader = ClassLoader.getSystemClassLoader
    val append = loader.getClass.getDeclaredMethod("appendToClassPathForInstrumentation", classOf[String])
    append.setAccessible(true)
    val _ = append.invoke(loader, jar)
  }
}
