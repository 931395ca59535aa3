package io.headrace.iceberg

import java.util

import scala.jdk.CollectionConverters.{IterableHasAsScala, ListHasAsScala}

import org.apache.iceberg.{Snapshot, SnapshotSummary, Table}
import org.apache.iceberg.spark.actions.SparkActions
import org.apache.iceberg.util.SnapshotUtil
import org.apache.spark.sql.SparkSession

/** A table put in order by Iceberg's own actions, whose commits change no rows: streams pass over them. */
object StoreMaintenance {

  /** Number of data files and of delete files of a table. */
  def files(session: SparkSession, name: String): Array[Long] = {
    val summary = Option(StoreTables.load(session, name).currentSnapshot()).map(_.summary())
    def total(of: String): Long = summary.flatMap(totals => Option(totals.get(of))).fold(0L)(_.toLong)
    Array(total(SnapshotSummary.TOTAL_DATA_FILES_PROP), total(SnapshotSummary.TOTAL_DELETE_FILES_PROP))
  }

  /** Files below the table's target size are put together, two of a partition being enough; those of which rows are deleted are written anew
    * without them, and delete files that then say nothing any more are dropped. One commit for each of the two.
    */
  def compact(session: SparkSession, name: String): Unit = {
    val table = StoreTables.load(session, name)
    if (table.currentSnapshot() != null) {
      val actions = SparkActions.get(session)
      actions.rewriteDataFiles(table).option("min-input-files", "2").option("delete-file-threshold", "1").execute()
      if (files(session, name)(1) > 0)
        actions.rewritePositionDeletes(StoreTables.load(session, name)).option("rewrite-all", "true").execute()
    }
  }

  /** Removes the snapshots from before a time, in milliseconds since 1970, but from the oldest on that is needed: the newest of each writer
    * that belongs to one of these queries, and those of these ids. Returns how many were removed, and how many were not since they are
    * needed or come later than one.
    */
  def expire(
      session: SparkSession,
      name: String,
      olderThan: Long,
      queryProperty: String,
      queries: util.List[String],
      ids: util.List[String]
  ): Array[Long] = {
    val table = StoreTables.load(session, name)
    val before = table.snapshots().asScala.toSeq
    val written = writers(table, queryProperty, queries.asScala.toSeq).flatMap(StoreTables.newest(table, queryProperty, _))
    val read = before.filter(snapshot => ids.contains(snapshot.snapshotId().toString))
    // Those in between stay too: an ancestor is found from the newest back only, as long as none is missing.
    val end = (written ++ read).map(_.timestampMillis()).foldLeft(olderThan)(_ min _)
    SparkActions.get(session).expireSnapshots(table).expireOlderThan(end).retainLast(1).execute()
    table.refresh()
    val after = table.snapshots().asScala.toSeq
    val kept = after.count(snapshot => isBetween(snapshot, end, olderThan) && snapshot != table.currentSnapshot())
    Array(before.size - after.size, kept)
  }

  /** The writers in a table's history that belong to queries: a query that was started anew or restored, each part of an application and
    * each of several sinks write under names of their own, which are the query's id with a hyphen and more.
    */
  private def writers(table: Table, queryProperty: String, queries: Seq[String]): Set[String] =
    SnapshotUtil
      .currentAncestors(table)
      .asScala
      .flatMap(snapshot => Option(snapshot.summary().get(queryProperty)))
      .filter(writer => queries.exists(query => writer == query || writer.startsWith(s"$query-")))
      .toSet

  private def isBetween(snapshot: Snapshot, from: Long, until: Long): Boolean =
    snapshot.timestampMillis() >= from && snapshot.timestampMillis() < until
}
