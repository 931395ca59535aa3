package io.headrace.spark

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.time.Instant
import java.util.concurrent.ConcurrentLinkedQueue

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.commons.io.FileUtils
import org.apache.spark.SparkConf
import org.apache.spark.headrace.DriverContext
import org.apache.spark.sql.{classic, DataFrame, Dataset, Row}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.headrace.CountedStateStoreProvider
import org.apache.spark.sql.headrace.{BatchListener, EarlyWatermark, EarlyWatermarks}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, Trigger}

/** One Spark session for all suites of the JVM, and queries whose rows are collected here. */
object SparkTesting {
  private val proves = sys.env.contains("HEADRACE_PROVE")

  /** `all` for `make prove`, `few` for `make test`, which runs beside the whole suite. */
  def amount[T](few: T, all: T): T = if (proves) all else few

  lazy val spark: classic.SparkSession = {
    DriverContext.start(
      new SparkConf()
        .setAppName("suites")
        .setMaster("local[2]")
        .set("spark.sql.extensions", classOf[HeadraceExtensions].getName)
        .set("spark.sql.streaming.streamingQueryListeners", classOf[EarlyWatermarks].getName)
        .set("spark.extraListeners", classOf[BatchListener].getName)
        .set("spark.sql.shuffle.partitions", amount(few = "1", all = "2"))
        .set("spark.sql.session.timeZone", "UTC")
        .set("spark.ui.enabled", "false")
        // As in the driver: a reused exchange does not pass on the watermark.
        .set("spark.sql.exchange.reuse", "false")
        // As the driver's session has them: without them each batch starts processes, flushes RocksDB and packs a snapshot.
        .set("spark.hadoop.fs.file.impl", classOf[NioLocalFileSystem].getName)
        .set("spark.sql.streaming.checkpointFileManagerClass", classOf[FileSystemBasedCheckpointFileManager].getName)
        .set("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
        .set("spark.sql.streaming.stateStore.providerClass", classOf[CountedStateStoreProvider].getName))
    classic.SparkSession.builder().getOrCreate().asInstanceOf[classic.SparkSession]
  }

  private lazy val checkpoints: Path = {
    val folder = Files.createTempDirectory("headrace-checkpoints")
    sys.addShutdownHook(FileUtils.deleteQuietly(folder.toFile))
    folder
  }

  def at(seconds: Double): Timestamp = new Timestamp((seconds * 1000).toLong)

  /** All rows, in batches of 1 to 120. */
  def pieces[T](rows: Seq[T], random: Random): Iterator[Seq[T]] = Iterator.unfold(rows) { left =>
    Option.when(left.nonEmpty)(left.splitAt(1 + random.nextInt(120)))
  }

  def newCheckpoint(): Path = Files.createTempDirectory(checkpoints, "")

  /** The messages of an error and of what caused it. */
  def causes(error: Throwable): Seq[String] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).map(_.getMessage).filter(_ != null).toSeq

  /** Runs `df` from when `body` first asks for its query, so that the rows before that are one batch; returns what `body` returns. */
  def running[T](
      df: DataFrame,
      checkpoint: Path = newCheckpoint(),
      trigger: Trigger = Trigger.ProcessingTime(0),
      beforeBatch: () => Unit = () => (),
      afterBatch: () => Unit = () => ()
  )(body: Running => T): T = {
    val collected = new ConcurrentLinkedQueue[Row]
    var started = Option.empty[StreamingQuery]
    def start(): StreamingQuery = {
      val query = df.writeStream
        .foreachBatch { (batch: Dataset[Row], _: Long) =>
          beforeBatch()
          batch.collect().foreach(collected.add)
          afterBatch()
        }
        .outputMode(OutputMode.Append())
        .option("checkpointLocation", checkpoint.toString)
        .trigger(trigger)
        .start()
      started = Some(query)
      query
    }
    try body(new Running(start(), collected))
    finally started.foreach(_.stop())
  }

  final class Running(start: => StreamingQuery, collected: ConcurrentLinkedQueue[Row]) {
    lazy val query: StreamingQuery = start

    /** Everything that came out so far. */
    def came: Seq[Row] = collected.asScala.toSeq

    /** The same after all input is processed. */
    def rows(): Seq[Row] = {
      query.processAllAvailable()
      came
    }

    /** The watermark that follows from all input, in seconds. */
    def watermark(): Double = {
      query.processAllAvailable()
      val ours = new ObjectMapper().readTree(PartitionWatermark.describe(query.runId.toString)).path("watermarkMs").asLong(Long.MinValue)
      val ofBatch = Instant.parse(query.lastProgress.eventTime.get("watermark")).toEpochMilli
      math.max(ours, EarlyWatermark.ofBatch(query.lastProgress.batchId, ofBatch)) / 1000.0
    }

    /** Whether `condition` becomes true in time. It is not asked again once it was. */
    def eventually(condition: => Boolean): Boolean = {
      val end = System.nanoTime() + 10.minutes.toNanos
      Iterator
        .continually(condition)
        .takeWhile(met => !met && System.nanoTime() < end)
        .foreach(_ => Thread.sleep(50))
      System.nanoTime() < end
    }
  }
}

/** A suite whose tests may wait for processors: in `make test` it runs behind the whole suite, and only a test that hangs is at fault. */
abstract class PatientSuite extends munit.FunSuite {
  override def munitTimeout: Duration = 20.minutes
}
