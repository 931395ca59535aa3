package io.headrace.spark

import java.nio.file.Path
import java.sql.Timestamp
import java.util.Arrays.asList
import java.util.{List => JavaList, Map => JavaMap}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.headrace.{ExchangeInOneTaskExec, OneTaskExec}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}

import SparkTesting._

class SmallBatchesSuite extends PatientSuite {
  import spark.implicits._

  private val seed = Random.nextInt()
  private val random = new Random(seed)

  private val shufflePartitions = "spark.sql.shuffle.partitions"
  private val partitionsBefore = spark.conf.get(shufflePartitions)

  // A batch that is not small is many tasks.
  override def beforeAll(): Unit = spark.conf.set(shufflePartitions, "2")
  override def afterAll(): Unit = spark.conf.set(shufflePartitions, partitionsBefore)

  /** A stream of (partition, time, key, value). */
  private final class Source {
    val stream: MemoryStream[(Int, Timestamp, String, Int)] = MemoryStream[(Int, Timestamp, String, Int)](spark)
    val rows: DataFrame = PartitionWatermark.assign(
      stream.toDF().toDF("partition", "ts", "k", "v").selectExpr("'t' AS topic", "*"),
      "s", "ts", "topic", "partition", JavaMap.of("t", (0 until 2).map(Int.box).asJava: JavaList[Integer]),
      false, 5000, 0, "last", null, 10000, 10000, 0, null, 0)
  }

  private def upTo[T](records: Int)(body: => T): T = {
    val before = spark.conf.getOption(SmallBatches.MostRecords)
    spark.conf.set(SmallBatches.MostRecords, records.toString)
    try body
    finally before.fold(spark.conf.unset(SmallBatches.MostRecords))(spark.conf.set(SmallBatches.MostRecords, _))
  }

  /** How many shuffles are in one task; None where a batch is many tasks. */
  private def exchanges(query: StreamingQuery): Option[Int] = {
    val plan = query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution.executedPlan
    Option.when(plan.exists(_.isInstanceOf[OneTaskExec]))(plan.collect { case exchange: ExchangeInOneTaskExec => exchange }.size)
  }

  private def counts(rows: DataFrame): DataFrame =
    rows.groupBy(window(col("ts"), "10 seconds"), col("k")).agg(count("*"), sum("v")).select("window.start", "k", "count(1)", "sum(v)")

  /** How many there are of each count of rows: two operators with a shuffle before each, the second one ours. */
  private def countsOfCounts(rows: DataFrame): DataFrame =
    ChangelogAggregate.aggregate(
      counts(rows).withColumnRenamed("count(1)", "n"),
      asList("n"), asList(AggregateCall("keys", "COUNT", asList(), false, "BIGINT")), null, "upsert", TimeToLive.Forever)

  private def drawn(count: Int): Seq[(Int, Timestamp, String, Int)] = Seq.tabulate(count) { number =>
    (number % 2, at(100 + number / 6.0 - random.nextInt(5000) / 1000.0), s"k${random.nextInt(5)}", random.nextInt(100))
  }

  private val end = Seq(0, 1).map(partition => (partition, at(5000), "end", 0))

  test("windows are as in a batch, whether one task makes a batch or many, over one checkpoint, and rows are counted right") {
    val source = new Source
    val checkpoint = newCheckpoint()
    val rows = drawn(amount(few = 400, all = 900))
    val parts = rows.grouped(rows.size / 4).toSeq
    val came = for ((part, records) <- parts.zip(Seq(2000, 0, 2000, 0))) yield upTo(records) {
      running(counts(source.rows), checkpoint) { query =>
        var read = 0L
        pieces(part, random).foreach { batch =>
          source.stream.addData(batch)
          val _ = query.rows()
          assertEquals(query.query.lastProgress.numInputRows, batch.size.toLong)
          assertEquals(exchanges(query.query), Option.when(records > 0)(1))
          read += query.query.lastProgress.stateOperators.head.numRowsUpdated
        }
        assert(read > 0)
        if (part eq parts.last) source.stream.addData(end)
        query.rows().map(_.toString)
      }
    }
    val expected = counts(rows.toDF("partition", "ts", "k", "v")).collect().map(_.toString).sorted.toSeq
    assertEquals(came.flatten.sorted, expected, s"seed $seed")
  }

  test("operators one after the other, each with a shuffle before it, give in one task what they give in many") {
    val rows = drawn(amount(few = 200, all = 600))
    def last(records: Int): Map[Any, Any] = upTo(records) {
      val source = new Source
      running(countsOfCounts(source.rows)) { query =>
        for (batch <- pieces(rows, random) ++ Iterator(end)) {
          source.stream.addData(batch)
          val _ = query.rows()
        }
        assertEquals(exchanges(query.query), Option.when(records > 0)(2))
        query.rows().map(row => row.get(0) -> row.toSeq.tail).toMap
      }
    }
    assertEquals(last(2000), last(0), s"seed $seed")
  }

  test("a batch of more records is many tasks, and the one without rows that follows is small") {
    upTo(10) {
      val source = new Source
      running(countsOfCounts(source.rows)) { query =>
        source.stream.addData(drawn(11))
        val _ = query.rows()
        assertEquals(exchanges(query.query), Some(2))
        source.stream.addData(drawn(10))
        val _ = query.rows()
        assertEquals(exchanges(query.query), Some(2))
      }
      val stream = MemoryStream[Int](spark)
      running(stream.toDF()) { query =>
        for ((records, expected) <- Seq(11 -> None, 10 -> Some(0))) {
          stream.addData(1 to records)
          val _ = query.rows()
          assertEquals(exchanges(query.query), expected)
        }
      }
    }
  }

  test("a small batch is one task for a sink of Spark's own and for foreachBatch") {
    upTo(2000) {
      val stream = MemoryStream[Int](spark)
      val counted = stream.toDF().groupBy("value").count()
      var partitions = 0
      for (isForeach <- Seq(true, false)) {
        val write = counted.writeStream.outputMode(OutputMode.Update()).option("checkpointLocation", newCheckpoint().toString)
        val query =
          (if (isForeach) write.foreachBatch((batch: DataFrame, _: Long) => partitions = batch.queryExecution.toRdd.mapPartitions(rows => Iterator.single(rows.size)).collect().length) else write.format("noop")).start()
        try {
          stream.addData(1, 2, 3)
          query.processAllAvailable()
          assertEquals(exchanges(query), Some(1))
        } finally query.stop()
      }
      assertEquals(partitions, 1)
    }
  }

  test("a small batch that fails writes no state, and is right when it runs again") {
    upTo(2000) {
      val stream = MemoryStream[Int](spark)
      val checkpoint: Path = newCheckpoint()
      def query: DataFrame = stream.toDF().selectExpr("value % 3 AS k", "value").groupBy("k").agg(sum("value"), sum(expr("100 / (value - 7)")))
      def results(values: Int*)(check: Seq[Row] => Unit): Unit = {
        val rows = Seq.newBuilder[Row]
        val started = query.writeStream
          .outputMode(OutputMode.Update())
          .option("checkpointLocation", checkpoint.toString)
          .foreachBatch((batch: DataFrame, _: Long) => { val _ = rows ++= batch.collect() })
          .start()
        try {
          stream.addData(values)
          started.processAllAvailable()
          check(rows.result())
        } finally started.stop()
      }
      results(1, 2, 3)(rows => assertEquals(rows.map(_.getLong(1)).sum, 6L))
      val _ = intercept[Exception](results(4, 7)(_ => ()))
      spark.conf.set("spark.sql.ansi.enabled", "false")
      try results(5)(rows => assertEquals(rows.filter(_.get(0) == 1).map(_.getLong(1)), Seq(12L)))
      finally spark.conf.unset("spark.sql.ansi.enabled")
    }
  }

  test("an operator that has computed a small batch computes one that is not small, in tasks that get a copy of it") {
    val (ours, theirs) = (MemoryStream[(String, Int)](spark), MemoryStream[(String, Int)](spark))
    val (left, right) = (ours.toDF().toDF("k", "a"), theirs.toDF().toDF("id", "b"))
    val joined = ChangelogJoin.join(left, right, asList("k"), asList("id"), null, null, "a < b", "inner", null, null, TimeToLive.Forever)
    upTo(4) {
      running(joined) { query =>
        for ((keys, pairs) <- Seq((1, 1), (20, 23), (2, 31))) {
          ours.addData((0 until keys).map(key => (s"k$key", key)))
          theirs.addData((0 until keys).map(key => (s"k$key", key + 1)))
          assertEquals(query.rows().size, pairs)
          assertEquals(exchanges(query.query).isDefined, keys < 3)
        }
      }
    }
  }
}
