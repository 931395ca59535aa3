package io.headrace.spark

import org.apache.spark.sql.DataFrame

import SparkTesting._

class RepeatableRowsSuite extends PatientSuite {
  // Nobody connects to it: plans are analyzed only.
  private lazy val topic = spark.readStream
    .format("org.apache.spark.sql.kafka010.KafkaFromFirstRecords")
    .option("kafka.bootstrap.servers", "127.0.0.1:1")
    .option("subscribe", "t")
    .load()

  private def over(sql: String): DataFrame = {
    topic.createOrReplaceTempView("records")
    spark.sql(sql)
  }

  Seq(
    "SELECT key, value FROM records WHERE offset > 1",
    "SELECT key, CAST(current_timestamp() AS STRING) AS value FROM records",
    "SELECT key, count(*) AS n, sum(offset) AS total, max(value) AS last FROM records GROUP BY key",
    "SELECT window, count(*) AS n FROM (SELECT window(timestamp, '1 second') AS window FROM records) GROUP BY window",
    "SELECT key FROM records UNION ALL SELECT value FROM records",
    "SELECT key, headrace_measured(value, key, 'input_bytes') AS value FROM records"
  ).foreach { sql =>
    test(s"the same rows each time: $sql")(assert(RepeatableRows.holds(over(sql))))
  }

  Seq(
    "SELECT key, rand() AS value FROM records",
    "SELECT key, uuid() AS value FROM records",
    "SELECT key, monotonically_increasing_id() AS value FROM records",
    "SELECT key, first(value) AS value FROM records GROUP BY key",
    "SELECT key, collect_list(value) AS value FROM records GROUP BY key",
    "SELECT key, sum(CAST(offset AS DOUBLE)) AS value FROM records GROUP BY key",
    "SELECT key, avg(offset) AS value FROM records GROUP BY key",
    "SELECT DISTINCT key FROM records",
    "SELECT a.key FROM records a JOIN records b ON a.key = b.key"
  ).foreach { sql =>
    test(s"perhaps other rows each time: $sql")(assert(!RepeatableRows.holds(over(sql))))
  }

  test("rows of another source")(assert(!RepeatableRows.holds(spark.readStream.format("rate").load())))
}
