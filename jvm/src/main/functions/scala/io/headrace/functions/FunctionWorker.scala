package io.headrace.functions

import java.io.{BufferedInputStream, BufferedOutputStream, ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream,
  EOFException, FileDescriptor, FileInputStream, FileOutputStream, InputStream, PrintStream}
import java.lang.reflect.InvocationTargetException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path
import java.util.concurrent.LinkedBlockingQueue

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.arrow.memory.{BufferAllocator, RootAllocator}
import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, Schema}

/** Process that runs the functions of one function source (ADR 58): the arguments are its JARs, and, as a number, the descriptor of a
  * connection to the proxy that looks names up (ADR 78).
  *
  * Frames cross its standard input and output: a byte, the length of the rest as four bytes, and the rest. Both kinds start with the
  * number of a function, four bytes. `D` declares it by an Arrow schema: its last field is the result, the others are the parameters, and its
  * metadata has `class` and `kind`. `C` calls it with an Arrow stream of one batch with the arguments. The answer is `O`, with an Arrow stream of the
  * results, or with the text `repeatable` or `unrepeatable`; or it is `E`: the row as four bytes, then the message, a NUL, and the trace.
  * `T` calls it for all rows, also if some fail: the answer has a second column with the message, a NUL and the trace of those.
  *
  * What a function prints goes to standard error. The process ends with its standard input, also while a function runs.
  */
object FunctionWorker {
  private final case class Frame(kind: Byte, content: Array[Byte])

  def main(arguments: Array[String]): Unit = {
    val (descriptors, jars) = arguments.partition(_.forall(Character.isDigit))
    val input = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16))
    val output = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16))
    System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true))
    System.setIn(InputStream.nullInputStream())
    val loader = new FunctionLoader(jars.map(Path.of(_).toUri.toURL), getClass.getClassLoader)
    descriptors.foreach(descriptor => HostNames.lookUpThrough(descriptor.toInt))
    val frames = new LinkedBlockingQueue[Frame]
    val reader = new Thread(() => read(input, frames), "frames")
    reader.setDaemon(true)
    reader.start()
    Thread.currentThread().setContextClassLoader(loader)
    val functions = new Functions(loader)
    while (true) {
      val frame = frames.take()
      val (kind, content) =
        try 'O' -> functions.answer(frame.kind, frame.content)
        catch { case failure: CallFailure => 'E' -> failure.content }
      output.writeByte(kind)
      output.writeInt(content.length)
      output.write(content)
      output.flush()
    }
  }

  private def read(input: DataInputStream, frames: LinkedBlockingQueue[Frame]): Unit =
    try
      while (true) {
        val kind = input.readByte()
        val content = new Array[Byte](input.readInt())
        input.readFully(content)
        frames.put(Frame(kind, content))
      }
    catch { case _: EOFException => Runtime.getRuntime.halt(0) }
}

/** Failure of a function at a row of a batch, -1 without one. */
private[functions] final class CallFailure(row: Int, message: String, trace: String) extends RuntimeException(message, null, false, false) {
  def text: String = s"$message\u0000$trace"

  def content: Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val data = new DataOutputStream(bytes)
    data.writeInt(row)
    data.write(text.getBytes(UTF_8))
    bytes.toByteArray
  }
}

private[functions] object CallFailure {
  private val FramesMax = 20
  private val TextMax = 1000

  def apply(row: Int, error: Throwable): CallFailure = {
    val cause = error match {
      case wrapped: InvocationTargetException => wrapped.getCause
      case other                              => other
    }
    val message = Option(cause.getMessage).fold("")(text => s": ${text.take(TextMax)}")
    val own = cause.getStackTrace.takeWhile(frame => !frame.getClassName.startsWith("io.headrace.functions."))
    val frames = own.filterNot(frame => frame.getClassName.startsWith("java.lang.reflect.") || frame.getClassName.startsWith("jdk.internal."))
    new CallFailure(row, s"${cause.getClass.getName}$message", frames.take(FramesMax).map(frame => s"at $frame").mkString("\n"))
  }
}

private final case class Declared(function: UserFunction, result: Field)

/** The declared functions of this process. */
private[functions] final class Functions(loader: ClassLoader) {
  private val declared = mutable.Map.empty[Int, Declared]
  private val allocator: BufferAllocator = new RootAllocator

  def answer(kind: Byte, content: Array[Byte]): Array[Byte] = {
    val number = new DataInputStream(new ByteArrayInputStream(content)).readInt()
    val rest = new ByteArrayInputStream(content, 4, content.length - 4)
    if (kind == 'D') declare(number, rest) else call(declared(number), rest, keepsFailures = kind == 'T')
  }

  private def declare(number: Int, content: InputStream): Array[Byte] = {
    val reader = new ArrowStreamReader(content, allocator)
    try {
      val schema = reader.getVectorSchemaRoot.getSchema
      val settings = schema.getCustomMetadata
      val fields = schema.getFields.asScala.toSeq
      val function =
        try UserFunction(settings.get("kind"), loader.loadClass(settings.get("class")), fields.init, fields.last, loader)
        catch {
          case failure: CallFailure                  => throw failure
          case error: ExceptionInInitializerError    => throw CallFailure(-1, Option(error.getCause).getOrElse(error))
          case error @ (_: Exception | _: LinkageError | _: StackOverflowError) => throw CallFailure(-1, error)
        }
      declared(number) = Declared(function, fields.last)
      (if (function.isRepeatable) "repeatable" else "unrepeatable").getBytes(UTF_8)
    } finally reader.close()
  }

  private def call(declared: Declared, content: InputStream, keepsFailures: Boolean): Array[Byte] = {
    val reader = new ArrowStreamReader(content, allocator)
    try {
      reader.loadNextBatch()
      val arguments = reader.getVectorSchemaRoot
      val fields = if (keepsFailures) Seq(declared.result, Functions.Failures) else Seq(declared.result)
      val results = VectorSchemaRoot.create(new Schema(fields.asJava), allocator)
      try {
        declared.function.call(arguments, results)
        val bytes = new ByteArrayOutputStream
        val writer = new ArrowStreamWriter(results, null, bytes)
        writer.start()
        writer.writeBatch()
        writer.end()
        bytes.toByteArray
      } finally results.close()
    } finally reader.close()
  }
}

private object Functions {
  private val Failures = Field.nullable("failure", ArrowType.Utf8.INSTANCE)
}
