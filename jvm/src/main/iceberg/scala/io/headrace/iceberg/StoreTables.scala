package io.headrace.iceberg

import scala.jdk.CollectionConverters.IterableHasAsScala

import org.apache.iceberg.spark.Spark3Util
import org.apache.iceberg.util.SnapshotUtil
import org.apache.spark.sql.SparkSession

/** What Spark's SQL does not say of a table. */
object StoreTables {

  /** The last epoch of a query that a table has, -1 when it has none.
    *
    * The summaries of its snapshots say so; the ones that the table is not made of any more, after a roll-back, do not count.
    */
  def lastEpoch(session: SparkSession, table: String, queryProperty: String, epochProperty: String, query: String): Long =
    SnapshotUtil
      .currentAncestors(Spark3Util.loadIcebergTable(session, table))
      .asScala
      .iterator
      .map(_.summary())
      .collectFirst { case summary if query == summary.get(queryProperty) => summary.get(epochProperty).toLong }
      .getOrElse(-1L)
}
