package org.apache.spark.deploy.headrace

import java.nio.file.{Files, Path, Paths}
import java.util.{List => JavaList}

import scala.concurrent.Await
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Try}
import scala.util.control.NonFatal

import org.apache.spark.{ExecutorAllocationClient, SPARK_VERSION, SecurityManager, SparkConf, SparkContext, SparkEnv}
import org.apache.spark.deploy.DeployMessages.{MasterStateResponse, RequestMasterState}
import org.apache.spark.deploy.master.{Master, RecoveryState, WorkerInfo}
import org.apache.spark.rpc.{RpcAddress, RpcEnv}
import org.apache.spark.scheduler.ExecutorDecommissionInfo
import org.apache.spark.util.Utils

/** Checks of a standalone cluster when a driver starts, each in bounded time: Spark itself waits for a minute for a
  * master, and for ever for executors and for the tasks of executors that do not start.
  */
object Cluster {
  private val AskTimeout = "20s"

  /** The number of executors of so many cores and MiB for which the workers have room, if nothing else runs on them: a master does not
    * tell others what does. Throws the reason why no master answers.
    */
  def room(settings: SparkConf, cores: Int, memoryMb: Int): Int = {
    val conf = settings.clone
      .set("spark.rpc.lookupTimeout", AskTimeout)
      .set("spark.rpc.askTimeout", AskTimeout)
      .set("spark.rpc.io.connectionTimeout", AskTimeout)
    val host = conf.get("spark.driver.bindAddress")
    val env = RpcEnv.create("headraceCheck", host, host, -1, conf, new SecurityManager(conf), 0, clientMode = true)
    try {
      val answers = Utils.parseStandaloneMasterUrls(conf.get("spark.master")).toSeq.map(url => Try(state(env, url)))
      answers.collectFirst { case Success(answer) if answer.status == RecoveryState.ALIVE => answer } match {
        case Some(answer) => answer.workers.filter(_.isAlive()).map(fitting(_, cores, memoryMb)).sum
        case None => throw answers.collectFirst { case Failure(error) => error }.getOrElse(new IllegalStateException("no master leads"))
      }
    } finally env.shutdown()
  }

  private def state(env: RpcEnv, url: String): MasterStateResponse =
    env.setupEndpointRef(RpcAddress.fromSparkURL(url), Master.ENDPOINT_NAME).askSync[MasterStateResponse](RequestMasterState)

  private def fitting(worker: WorkerInfo, cores: Int, memoryMb: Int): Int =
    math.min(worker.cores / cores, worker.memory / memoryMb)

  /** True if a master that leads does not know the application: it was started again without the state of the one before, or it lost the
    * connection to the driver. It has ended the executors and starts no others, of which it tells nobody, and Spark waits for ever. A
    * master that does not answer may still know the application.
    */
  def isForgotten(context: SparkContext): Boolean = {
    val answers = Utils.parseStandaloneMasterUrls(context.master).toSeq.map(url => Try(state(SparkEnv.get.rpcEnv, url)))
    answers
      .collectFirst { case Success(answer) if answer.status == RecoveryState.ALIVE => answer }
      .exists(!_.activeApps.exists(_.id == context.applicationId))
  }

  /** Waits until `count` executors have come. Returns how many have at the end of `timeoutMs`. */
  def awaitExecutors(context: SparkContext, count: Int, timeoutMs: Long): Int = {
    val deadline = timeoutMs.millis.fromNow
    while (executors(context) < count && !context.isStopped && deadline.hasTimeLeft()) Thread.sleep(100)
    executors(context)
  }

  /** The executors of now; the driver itself is none. */
  def executors(context: SparkContext): Int = context.statusTracker.getExecutorInfos.length - 1

  /** The tasks that run now. */
  def runningTasks(context: SparkContext): Int = context.statusTracker.getExecutorInfos.map(_.numRunningTasks()).sum

  /** Ends Spark's own dynamic allocation, which is on only because an application without it takes all of its executors when it starts.
    * Until the first job it has requested the fewest.
    */
  def endAllocation(context: SparkContext): Unit = context.executorAllocationManager.foreach(_.stop())

  /** Measures the load of an application from now on. */
  def measure(context: SparkContext): TaskLoad = {
    val load = new TaskLoad
    context.addSparkListener(load)
    load
  }

  /** The executors that take tasks: of those of now, the ones that are not to end. */
  def active(context: SparkContext): Int = activeIds(client(context)).length

  /** Asks the master for so many executors in all. It starts those that are missing when workers have room for them, and ends none. */
  def request(context: SparkContext, count: Int): Unit = context.requestTotalExecutors(count, 0, Map.empty)

  /** Lets the executors beyond `count` end, the newest first, after the tasks that they run: they get no others. What a batch has shuffled
    * there is computed again.
    */
  def release(context: SparkContext, count: Int): Unit = {
    request(context, count)
    val surplus = activeIds(client(context)).sortBy(_.toInt).drop(count)
    val reason = ExecutorDecommissionInfo("the load of the compute pool needs fewer executors")
    client(context).decommissionExecutors(surplus.map(_ -> reason).toArray, adjustTargetNumExecutors = false, triggeredByExecutor = false)
  }

  private def activeIds(client: ExecutorAllocationClient): Seq[String] = client.getExecutorIds().filter(client.isExecutorActive)

  private def client(context: SparkContext): ExecutorAllocationClient = context.schedulerBackend match {
    case client: ExecutorAllocationClient => client
    case other                            => throw new IllegalStateException(s"$other has no executors to ask for")
  }

  /** Lets tasks on the executors read the file `token` and write one beside it, which the driver must see; of an empty `token` no file.
    * Returns the problems, none if every executor shares the folder and has the driver's version of Spark. Throws the reason why no task
    * ran in `timeoutMs`.
    */
  def problems(context: SparkContext, token: String, slots: Int, timeoutMs: Long): JavaList[String] = {
    // Several for each slot, and each for a moment, so that every executor gets one.
    val tasks = 4 * slots
    val expected = if (token.isEmpty) "" else Files.readString(Paths.get(token))
    val ran = context.parallelize(1 to tasks, tasks).map(_ => Cluster.look(token, expected)).collectAsync()
    val answers =
      try Await.result(ran, timeoutMs.millis)
      finally ran.cancel()
    val seen = answers.distinct.map { answer =>
      val written = Path.of(s"$token-${answer.executor}")
      if (answer.problem.nonEmpty) answer.problem
      else if (answer.version != SPARK_VERSION) s"the worker at ${answer.host} runs Spark ${answer.version}, expected $SPARK_VERSION"
      else if (token.nonEmpty && !Files.exists(written)) s"the server does not see what the worker at ${answer.host} writes"
      else ""
    }
    seen.filter(_.nonEmpty).distinct.toSeq.asJava
  }

  private final case class Answer(executor: String, host: String, version: String, problem: String)

  private def look(token: String, expected: String): Answer = {
    Thread.sleep(50)
    val executor = SparkEnv.get.executorId
    val host = Utils.localHostName()
    val problem =
      try {
        val file = Paths.get(token)
        if (token.isEmpty) ""
        else if (!Files.exists(file)) s"the worker at $host does not see the file ${file.getFileName}"
        else if (Files.readString(file) != expected) s"the worker at $host sees another folder there"
        else {
          Files.writeString(Path.of(s"$token-$executor"), expected)
          ""
        }
      } catch { case NonFatal(error) => s"the worker at $host cannot use it: $error" }
    Answer(executor, host, SPARK_VERSION, problem)
  }
}
