package io.headrace.spark

import java.nio.ByteBuffer
import java.util.{Arrays, List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode

import PackedRows._
import PartitionWatermark.named

/** Upserts to signed rows: the entry point for Python. */
object Normalize {

  /** Changes of each row, given the last row of its key: the old row is retracted, the new one added.
    *
    * A new version that is the same in all columns, event time included, changes nothing, nor does the deletion of a
    * key that is not there. What is taken away has the bytes with which it was added.
    *
    * @param keys        the key's columns; a NULL in them is a value like others
    * @param deleted     a BOOLEAN column that marks the end of its key; null when rows are never deleted
    * @param sequence    a BIGINT column by which rows of a key are put in order that come in one call; null: as they come
    * @param kinds       tell the sign of an update from that of an insertion and a deletion: -2 for its old row, 2 for its new one
    * @param ttl         a key that was not touched for so long is forgotten; with `repeats`, one that was touched without a
    *                    change gives its row again, with 0 as its sign
    *
    * Returns all columns but `deleted` and `sequence`, and `op` of [[InternalColumns]].
    */
  def rows(df: DataFrame, keys: JavaList[String], deleted: String, sequence: String, kinds: Boolean, ttl: TimeToLive): DataFrame = {
    val schema = without(df.schema, deleted, sequence)
    val names = keys.asScala.toSeq
    val version = packed(schema.fieldNames.map(named).toSeq)
    val order = if (sequence == null) lit(0L) else coalesce(named(sequence), lit(Long.MinValue))
    val live = if (deleted == null) version else when(coalesce(named(deleted), lit(false)), lit(null)).otherwise(version)
    val state = new KeyState("Normalize", 1, (names, rowType(schema).json).hashCode, ttl)
    df.select(packedKey(df, names).as("key"), order.as("sequence"), live.as("row"))
      .groupBy(col("key"))
      .as[Array[Byte], Version](Encoders.BINARY, Encoders.product[Version])
      .transformWithState(new NormalizeProcessor(state, ttl, if (kinds) 2 else 1), KeyedOperator.timeMode(ttl), OutputMode.Append())(
        Encoders.product[SignedRow]
      )
      .toDF()
      .select(columns(col("row"), schema) :+ col("op").as(InternalColumns.of(df).op): _*)
  }
}

/** A row that replaces the one of its key; null: that one is deleted. */
private[spark] final case class Version(sequence: Long, row: Array[Byte])

/** A row that is added to a relation, 1, or taken away, -1, or still there, 0; 2 and -2 where an update is to be told from these. */
private[spark] final case class SignedRow(op: Byte, row: Array[Byte])

private[spark] final class NormalizeProcessor(state: KeyState, ttl: TimeToLive, update: Byte)
    extends KeyedOperator[Version, SignedRow](state, ttl) {

  override protected def change(key: Array[Byte], rows: Iterator[Version], time: OperatorTime): Iterator[SignedRow] = {
    var last = rows.next()
    while (rows.hasNext) {
      val row = rows.next()
      if (row.sequence >= last.sequence) last = row
    }
    val loaded = state.load()
    val (before, after) = (NormalizeProcessor.row(loaded), last.row)
    if (Arrays.equals(before, after)) {
      if (loaded != null) state.touch(loaded, time)
      if (state.isStale) Iterator.single(SignedRow(0, after)) else Iterator.empty
    } else {
      if (after == null) state.clear(time) else state.store(state.allocate(after.length).put(after), time)
      if (before == null) Iterator.single(SignedRow(1, after))
      else if (after == null) Iterator.single(SignedRow(-1, before))
      else Iterator(SignedRow((-update).toByte, before), SignedRow(update, after))
    }
  }

  override protected def repeat(key: Array[Byte]): Iterator[SignedRow] =
    Iterator.single(SignedRow(0, NormalizeProcessor.row(state.load())))
}

private object NormalizeProcessor {
  private def row(state: ByteBuffer): Array[Byte] =
    if (state == null) null else Arrays.copyOfRange(state.array(), state.position(), state.limit())
}
