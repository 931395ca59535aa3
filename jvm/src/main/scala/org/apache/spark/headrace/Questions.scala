package org.apache.spark.headrace

import scala.concurrent.{ExecutionContext, Future}
import scala.reflect.ClassTag
import scala.util.{Failure, Success}

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rpc.{RpcCallContext, RpcEndpoint, RpcEnv}
import org.apache.spark.util.{RpcUtils, ThreadUtils}

/** Question of a task that only the driver can answer, such as for a token that its Python requests. */
trait Question[A] extends Serializable {

  /** Driver: the answer, of a class of Java or Scala, since the thread that reads an answer in an executor knows no others. */
  def answer(): A
}

/** Answers of the driver to tasks of any process, over Spark's own RPC, which requires the secret of the cluster and encrypts. */
object Questions {
  private val Name = "headrace-questions"
  private val Threads = 8

  /** The answer to `question`. Throws SparkException with the cause if the driver cannot answer. */
  def ask[A: ClassTag](question: Question[A]): A = SparkEnv.get match {
    case env if env == null || env.executorId == SparkContext.DRIVER_IDENTIFIER => question.answer()
    case env => RpcUtils.makeDriverRef(Name, env.conf, env.rpcEnv).askSync[A](question)
  }

  /** Driver: answers from now on, until `env` ends. */
  private[headrace] def serve(env: RpcEnv): Unit = { val _ = env.setupEndpoint(Name, new Answers(env)) }

  /** Answers take as long as other servers do, and Spark's threads for messages must not wait. */
  private final class Answers(override val rpcEnv: RpcEnv) extends RpcEndpoint {
    private val threads = ThreadUtils.newDaemonCachedThreadPool(Name, Threads)
    private implicit val answering: ExecutionContext = ExecutionContext.fromExecutorService(threads)

    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = { case question: Question[_] =>
      Future(question.answer()).onComplete {
        case Success(answer) => context.reply(answer)
        case Failure(error)  => context.sendFailure(error)
      }
    }

    override def onStop(): Unit = threads.shutdown()
  }
}
