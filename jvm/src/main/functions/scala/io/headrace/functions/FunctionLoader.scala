package io.headrace.functions

import java.net.{URL, URLClassLoader}

/** Loader of the classes of a function source: its own classes come before those of the worker, so that a JAR brings its own libraries.
  *
  * Flink's classes are the exception: a function must be a subclass of the classes that call it, also if its JAR contains a copy of them.
  */
private[functions] final class FunctionLoader(jars: Array[URL], worker: ClassLoader) extends URLClassLoader(jars, worker) {

  override def loadClass(name: String, resolve: Boolean): Class[_] = getClassLoadingLock(name).synchronized {
    val known: Class[_] = findLoadedClass(name)
    val loaded: Class[_] =
      if (known != null) known
      else if (FunctionLoader.isShared(name)) super.loadClass(name, false)
      else
        try findClass(name)
        catch { case _: ClassNotFoundException => super.loadClass(name, false) }
    if (resolve) resolveClass(loaded)
    loaded
  }
}

private[functions] object FunctionLoader {
  private val Shared = Seq("java.", "javax.", "jdk.", "sun.", "org.apache.flink.")

  private def isShared(name: String): Boolean = Shared.exists(name.startsWith)
}
