package io.headrace.spark

import org.apache.spark.sql.DataFrame

/** Names of the columns that a query has beside its users' columns: those that the operators know. `core/internal_columns.py` has all.
  *
  * @param prefix  what all of them begin with, and no column of a user
  */
private[spark] final case class InternalColumns(prefix: String) {

  /** A TINYINT: a row is added to a relation, 1, or taken away, -1. */
  val op: String = prefix + "op"

  /** A BOOLEAN: a row is the end of its key, and not its new version. */
  val deleted: String = prefix + "deleted"

  /** The event time, a TIMESTAMP. */
  val rowtime: String = prefix + "rowtime"

  /** The columns of which a late row is made as it came: a STRUCT of [[SideTopic.Record]], and where it stands. */
  val sent: Seq[String] = Seq(prefix + "record", prefix + "metadata")

  def contain(name: String): Boolean = name.startsWith(prefix)
}

private[spark] object InternalColumns {
  val Prefix = "__headrace_"

  /** A setting of the session: plans of earlier releases have another prefix, and state keeps the names that it began with. */
  private val Setting = "headrace.internal.prefix"

  def of(df: DataFrame): InternalColumns = InternalColumns(df.sparkSession.conf.get(Setting, Prefix))
}
