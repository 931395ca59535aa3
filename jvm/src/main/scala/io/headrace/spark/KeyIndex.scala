package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.immutable.ArraySeq

/** What the temporal join knows of one key without reading its rows. Times of rows are epoch microseconds.
  *
  * @param timersMs   the registered timers, ascending
  * @param nextChunk  the id of the next chunk of buffered rows
  * @param chunks     the chunks of buffered left rows: id and smallest time
  * @param versions   the times of the right versions that are kept, ascending
  */
private[spark] final case class KeyIndex(
    timersMs: ArraySeq[Long],
    nextChunk: Int,
    chunks: ArraySeq[ChunkRef],
    versions: ArraySeq[Long]
) {
  def isEmpty: Boolean = timersMs.isEmpty && chunks.isEmpty && versions.isEmpty

  /** Where in `versions` the one lies that is valid at `time`; -1 when none is. */
  def versionAt(time: Long): Int = versions.search(time) match {
    case scala.collection.Searching.Found(at)          => at
    case scala.collection.Searching.InsertionPoint(at) => at - 1
  }
}

private[spark] final case class ChunkRef(id: Int, minTime: Long)

private[spark] object KeyIndex {
  val Empty: KeyIndex = KeyIndex(ArraySeq.empty[Long], 0, ArraySeq.empty[ChunkRef], ArraySeq.empty[Long])

  /** Raise it when the layout of anything in the state changes: older state is then refused, not misread. */
  private val Format: Byte = 1

  private val HeaderBytes = 1 + 4 + 4 + 3 * 4

  /** @param rowFormat  stands for the columns of both sides, whose rows the state holds as plain bytes */
  def encode(index: KeyIndex, rowFormat: Int): Array[Byte] = {
    val size = HeaderBytes + 8 * index.timersMs.size + 12 * index.chunks.size + 8 * index.versions.size
    val out = ByteBuffer.allocate(size)
    out.put(Format).putInt(rowFormat).putInt(index.nextChunk)
    putLongs(out, index.timersMs)
    out.putInt(index.chunks.size)
    index.chunks.foreach(chunk => out.putInt(chunk.id).putLong(chunk.minTime))
    putLongs(out, index.versions)
    out.array()
  }

  /** Throws IllegalStateException for state of another format or of other columns. */
  def decode(bytes: Array[Byte], rowFormat: Int): KeyIndex = {
    val in = ByteBuffer.wrap(bytes)
    val format = in.get()
    if (format != Format)
      throw new IllegalStateException(
        s"expected temporal join state of format $Format, found format $format: the query must start from a new checkpoint"
      )
    if (in.getInt() != rowFormat)
      throw new IllegalStateException(
        "expected temporal join state of the columns that the query has now, found state of other columns: " +
          "the query must start from a new checkpoint"
      )
    val nextChunk = in.getInt()
    val timersMs = getLongs(in)
    val chunks = ArraySeq.fill(in.getInt())(ChunkRef(in.getInt(), in.getLong()))
    KeyIndex(timersMs, nextChunk, chunks, getLongs(in))
  }

  private def putLongs(out: ByteBuffer, values: ArraySeq[Long]): Unit = {
    out.putInt(values.size)
    values.foreach(value => out.putLong(value))
  }

  private def getLongs(in: ByteBuffer): ArraySeq[Long] = ArraySeq.fill(in.getInt())(in.getLong())
}

/** A left row that waits for the watermark. */
private[spark] final case class BufferedRow(time: Long, payload: Array[Byte])

/** The left rows that one key got in one batch, as one value of the state. */
private[spark] object Chunk {
  def encode(rows: collection.Seq[BufferedRow]): Array[Byte] = {
    val out = ByteBuffer.allocate(4 + rows.iterator.map(12 + _.payload.length).sum)
    out.putInt(rows.size)
    rows.foreach(row => out.putLong(row.time).putInt(row.payload.length).put(row.payload))
    out.array()
  }

  def decode(bytes: Array[Byte]): Array[BufferedRow] = {
    val in = ByteBuffer.wrap(bytes)
    Array.fill(in.getInt()) {
      val time = in.getLong()
      val payload = new Array[Byte](in.getInt())
      in.get(payload)
      BufferedRow(time, payload)
    }
  }
}
