package io.headrace.iceberg

import scala.jdk.CollectionConverters.IterableHasAsScala

import org.apache.iceberg.{SchemaParser, Snapshot, Table}
import org.apache.iceberg.spark.Spark3Util
import org.apache.iceberg.util.SnapshotUtil
import org.apache.spark.sql.SparkSession

/** Facts of a table that Spark's SQL does not show. */
object StoreTables {

  /** A table by its name in the session's SQL. */
  def load(session: SparkSession, name: String): Table = {
    // By its settings a catalog is found, here and in the threads of Iceberg's actions.
    SparkSession.setActiveSession(session)
    Spark3Util.loadIcebergTable(session, name)
  }

  /** The last epoch of a query that a table has, -1 when it has none. */
  def lastEpoch(session: SparkSession, table: String, queryProperty: String, epochProperty: String, query: String): Long =
    newest(load(session, table), queryProperty, query)
      .fold(-1L)(_.summary().get(epochProperty).toLong)

  /** True if the history has all snapshots that were committed since a time, in milliseconds: none of these has been removed. */
  def reaches(session: SparkSession, name: String, since: Long): Boolean = {
    val table = load(session, name)
    table.currentSnapshot() == null || {
      val oldest = SnapshotUtil.oldestAncestor(table)
      oldest.parentId() == null || oldest.timestampMillis() <= since
    }
  }

  /** A table's schema, as Iceberg's specification writes it in JSON. */
  def schema(session: SparkSession, name: String): String = SchemaParser.toJson(load(session, name).schema())

  /** True if the history is complete: none of the oldest snapshots has been removed. */
  def isWhole(session: SparkSession, name: String): Boolean = {
    val table = load(session, name)
    table.currentSnapshot() == null || SnapshotUtil.oldestAncestor(table).parentId() == null
  }

  /** The newest snapshot that a query has committed.
    *
    * The summaries say so; snapshots that the table is not made of any more, after a roll-back, do not count.
    */
  def newest(table: Table, queryProperty: String, query: String): Option[Snapshot] =
    SnapshotUtil.currentAncestors(table).asScala.find(_.summary().get(queryProperty) == query)
}
