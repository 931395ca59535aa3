package io.headrace.spark

import java.util.{Arrays, List => JavaList}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode

import PackedRows._
import PartitionWatermark.named

/** Signed rows to upserts: the entry point for Python. */
object Materialize {

  /** The row that each key shows, whenever it changes; `deleted` of [[InternalColumns]] marks the last row of a key that shows none any more.
    *
    * Of several rows that a key has at a time it shows the one that was added last, and when that is taken away the one
    * before it. The rows of a key are one value of state: there should be few.
    *
    * @param keys        the key's columns; a NULL in them is a value like others
    * @param op          the column that says whether a row is added, 1, or taken away, -1, or still there, 0
    * @param ttl         a key that was not touched for so long is forgotten; with `repeats`, one that was touched without a
    *                    change gives its row again
    *
    * Returns all columns but `op`, and `deleted`.
    */
  def rows(df: DataFrame, keys: JavaList[String], op: String, ttl: TimeToLive): DataFrame = {
    val schema = without(df.schema, op)
    val names = keys.asScala.toSeq
    val state = new KeyState("Materialize", 1, (names, rowType(schema).json).hashCode, ttl)
    df.select(
      packedKey(df, names).as("key"),
      named(op).cast("tinyint").as("op"),
      packed(schema.fieldNames.map(named).toSeq).as("row")
    ).groupBy(col("key"))
      .as[Array[Byte], SignedRow](Encoders.BINARY, Encoders.product[SignedRow])
      .transformWithState(new MaterializeProcessor(state, ttl), KeyedOperator.timeMode(ttl), OutputMode.Append())(
        Encoders.product[SignedRow]
      )
      .toDF()
      .select(columns(col("row"), schema) :+ (col("op") === lit(-1)).as(InternalColumns.of(df).deleted): _*)
  }
}

/** State of a key: its rows with their counts, in the order in which they were added last. */
private[spark] final class MaterializeProcessor(state: KeyState, ttl: TimeToLive)
    extends KeyedOperator[SignedRow, SignedRow](state, ttl) {
  @transient private lazy val rows = ArrayBuffer.empty[Array[Byte]]
  @transient private lazy val counts = ArrayBuffer.empty[Int]

  override protected def change(key: Array[Byte], changes: Iterator[SignedRow], time: OperatorTime): Iterator[SignedRow] = {
    val known = load()
    val before = shown
    while (changes.hasNext) {
      val change = changes.next()
      count(change.row, change.op)
    }
    val after = shown
    if (rows.nonEmpty) store(time) else if (known) state.clear(time)
    if (Arrays.equals(before, after)) if (state.isStale) repeated else Iterator.empty
    else if (after == null) Iterator.single(SignedRow(-1, before))
    else Iterator.single(SignedRow(1, after))
  }

  override protected def repeat(key: Array[Byte]): Iterator[SignedRow] = {
    load()
    repeated
  }

  private def repeated: Iterator[SignedRow] = Option(shown).iterator.map(SignedRow(0, _))

  private def count(row: Array[Byte], op: Byte): Unit = {
    val at = rows.indexWhere(Arrays.equals(_, row))
    val before = if (at < 0) 0 else counts(at)
    if (at >= 0 && (op > 0 || before + op == 0)) {
      rows.remove(at)
      counts.remove(at)
    } else if (at >= 0) counts(at) = before + op
    if (before + op != 0 && (op > 0 || at < 0)) {
      rows += row
      counts += before + op
    }
  }

  private def shown: Array[Byte] = {
    val at = counts.lastIndexWhere(_ > 0)
    if (at < 0) null else rows(at)
  }

  private def load(): Boolean = {
    rows.clear()
    counts.clear()
    val in = state.load()
    while (in != null && in.hasRemaining) {
      counts += in.getInt()
      rows += Accumulator.bytes(in)
    }
    in != null
  }

  private def store(time: OperatorTime): Unit = {
    val out = state.allocate(rows.foldLeft(0)((sum, row) => sum + 8 + row.length))
    for (at <- rows.indices) Accumulator.put(out.putInt(counts(at)), rows(at))
    state.store(out, time)
  }
}
