package io.headrace.spark

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream, IOException}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedDeque, Executors, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.SparkFiles
import org.apache.spark.sql.internal.SQLConf

/** Description of a call of a function of a user: see `FunctionLaunch` in `engine/protocol.py`. Workers of one `source` are shared.
  *
  * `onExecutors`: the command is one of the files that the driver has sent, and their folder is added to its arguments.
  */
final case class FunctionLaunch(
    id: String,
    signature: String,
    source: String,
    command: Seq[String],
    declaration: Seq[Byte],
    result: String,
    timeoutMs: Long,
    onExecutors: Boolean
) {

  /** The command of a worker, on the machine of this process. */
  def start: Seq[String] =
    if (onExecutors) SparkFiles.get(command.head) +: command.tail :+ SparkFiles.getRootDirectory() else command
}

/** Functions of users by query and id: the builder of a query announces them before the query's texts name them.
  *
  * Queries of two roles that start at once call one function by the same id, and each has workers of its own.
  */
object UserFunctions {
  private val announced = new ConcurrentHashMap[(String, String), FunctionLaunch]

  /** The setting of a session that names its query. */
  private val Query = "headrace.functions.query"

  /** Called from Python. `result` is the type of a call, as Spark writes it. */
  def announce(
      query: String,
      id: String,
      signature: String,
      source: String,
      command: java.util.List[String],
      declaration: String,
      result: String,
      timeoutMs: Long,
      onExecutors: Boolean
  ): Unit =
    announced.put(
      (query, id),
      FunctionLaunch(id, signature, source, command.asScala.toSeq, Base64.getDecoder.decode(declaration).toSeq, result, timeoutMs, onExecutors)
    )

  /** Called from Python when the query has ended. */
  def forget(query: String): Unit = { val _ = announced.keySet.removeIf(_._1 == query) }

  def get(id: String): FunctionLaunch =
    Option(announced.get((SQLConf.get.getConfString(Query, ""), id)))
      .getOrElse(throw new IllegalArgumentException(s"expected a function that was announced, found $id"))
}

/** Ends a query at a call of a function. The message is for the driver, in base64 since messages are quoted on their way.
  *
  * `problem` is the message, a NUL and the trace; `row` is the row of the batch, -1 if none is to blame. `place` says where its record stands.
  */
final class FunctionFailure(val signature: String, val problem: String, val row: Int = -1, place: String = "")
    extends RuntimeException(FunctionFailure.message(signature, place, problem)) {

  def at(place: String): FunctionFailure = new FunctionFailure(signature, problem, row, place)
}

private[spark] object FunctionFailure {
  private def message(parts: String*): String =
    s"HEADRACE_FUNCTION:${Base64.getEncoder.encodeToString(parts.mkString("\u0000").getBytes(UTF_8))}:"
}

/** Ends a query at a batch whose workers were lost, twice: which of its rows is to blame is unknown. */
final class FunctionLost(function: FunctionLaunch, problem: String) extends RuntimeException(problem) {
  def failure: FunctionFailure = new FunctionFailure(function.signature, problem)
}

/** Worker processes of users' functions, which the tasks of this JVM borrow: `FunctionWorker.scala` is the other side. */
object FunctionWorkers {
  private val IdleSeconds = 60L
  private val idle = new ConcurrentHashMap[String, ConcurrentLinkedDeque[FunctionProcess]]
  private val timer = Executors.newSingleThreadScheduledExecutor { task =>
    val thread = new Thread(task, "function-workers")
    thread.setDaemon(true)
    thread
  }
  timer.scheduleWithFixedDelay(() => endStale(), IdleSeconds, IdleSeconds, TimeUnit.SECONDS)

  /** The answer of a worker to a batch of arguments, an Arrow stream as is the answer.
    *
    * A worker that ends or does not answer in time is replaced once: the batch may not be to blame. Raises [[FunctionFailure]], and
    * [[FunctionLost]] if the second worker was lost too.
    */
  def call(function: FunctionLaunch, arguments: Array[Byte], keepsFailures: Boolean): Array[Byte] = {
    val kind = if (keepsFailures) 'T' else 'C'
    try attempt(function, kind, arguments)
    catch {
      case _: WorkerLost =>
        try attempt(function, kind, arguments)
        catch { case lost: WorkerLost => throw new FunctionLost(function, lost.getMessage) }
    }
  }

  private def attempt(function: FunctionLaunch, kind: Char, arguments: Array[Byte]): Array[Byte] = {
    val workers = idle.computeIfAbsent(function.source, _ => new ConcurrentLinkedDeque)
    val worker = Option(workers.pollFirst()).getOrElse(new FunctionProcess(function.start))
    var fit = false
    try {
      val answer = worker.call(function, kind, arguments, timer)
      fit = true
      answer
    } catch {
      case failure: FunctionFailure =>
        fit = true
        throw failure
    } finally
      if (fit) {
        worker.idleSince = System.nanoTime()
        workers.addFirst(worker)
      } else worker.end()
  }

  private def endStale(): Unit =
    for (workers <- idle.values.asScala) {
      val latest = System.nanoTime() - TimeUnit.SECONDS.toNanos(IdleSeconds)
      // Those that were used last come first, so that the rest gets older.
      var oldest = workers.pollLast()
      while (oldest != null && oldest.idleSince < latest) {
        oldest.end()
        oldest = workers.pollLast()
      }
      if (oldest != null) workers.addLast(oldest)
    }
}

/** The worker has ended, or has not answered in time. */
private[spark] final class WorkerLost(message: String) extends RuntimeException(message)

/** A worker process. Used by one thread at a time. */
private[spark] final class FunctionProcess(command: Seq[String]) {
  private val process = {
    val builder = new ProcessBuilder(command.asJava).redirectError(ProcessBuilder.Redirect.DISCARD)
    builder.environment().clear()
    builder.start()
  }
  private val input = new DataOutputStream(new BufferedOutputStream(process.getOutputStream, 1 << 16))
  private val output = new DataInputStream(new BufferedInputStream(process.getInputStream, 1 << 16))
  private val declared = mutable.Map.empty[String, Int]

  @volatile var idleSince: Long = System.nanoTime()

  def end(): Unit = process.destroyForcibly()

  def call(function: FunctionLaunch, kind: Char, arguments: Array[Byte], timer: java.util.concurrent.ScheduledExecutorService): Array[Byte] = {
    val late = new AtomicBoolean
    val watch = timer.schedule(
      new Runnable {
        override def run(): Unit = {
          late.set(true)
          end()
        }
      },
      function.timeoutMs,
      TimeUnit.MILLISECONDS
    )
    try {
      val number = declared.getOrElseUpdate(function.id, declare(function))
      input.writeByte(kind)
      input.writeInt(arguments.length + 4)
      input.writeInt(number)
      input.write(arguments)
      input.flush()
      answer(function)
    } catch {
      case _: IOException if late.get => throw new WorkerLost(s"it has not answered within ${function.timeoutMs / 1000.0} s")
      case _: IOException             => throw new WorkerLost(s"its process has ended with code ${exitCode()}")
    } finally watch.cancel(false)
  }

  private def declare(function: FunctionLaunch): Int = {
    val number = FunctionProcess.numbers.incrementAndGet()
    input.writeByte('D')
    input.writeInt(function.declaration.length + 4)
    input.writeInt(number)
    input.write(function.declaration.toArray)
    input.flush()
    answer(function)
    number
  }

  private def answer(function: FunctionLaunch): Array[Byte] = {
    val kind = output.readByte()
    val length = output.readInt()
    if (length < 0 || length > FunctionProcess.AnswerBytesMax) throw new IOException(s"an answer of $length bytes")
    val content = new Array[Byte](length)
    output.readFully(content)
    kind.toChar match {
      case 'O' => content
      case 'E' if length >= 4 =>
        throw new FunctionFailure(function.signature, new String(content, 4, length - 4, UTF_8), ByteBuffer.wrap(content).getInt)
      case _   => throw new IOException("an answer of another kind")
    }
  }

  private def exitCode(): String = if (process.waitFor(1, TimeUnit.SECONDS)) process.exitValue.toString else "unknown"
}

private object FunctionProcess {
  val AnswerBytesMax: Int = 1 << 30
  val numbers = new AtomicInteger
}
