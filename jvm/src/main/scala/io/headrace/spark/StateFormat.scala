package io.headrace.spark

import java.nio.ByteBuffer

/** Header of an operator's state, so that state of another kind is refused and not misread.
  *
  * @param operator   what the state belongs to, for people
  * @param version    of the operator's state: raise it when the layout changes
  * @param rowFormat  stands for the columns whose bytes are in the state, and for whatever else gives it its form
  */
private[spark] final class StateFormat(operator: String, version: Byte, rowFormat: Int) extends Serializable {

  def put(out: ByteBuffer): ByteBuffer = out.put(version).putInt(rowFormat)

  /** Throws IllegalStateException for state of another version or of other columns. */
  def check(in: ByteBuffer): Unit = {
    val stored = in.get()
    if (stored != version)
      throw new IllegalStateException(
        s"expected $operator state of version $version, found version $stored: the query must start from a new checkpoint"
      )
    if (in.getInt() != rowFormat)
      throw new IllegalStateException(
        s"expected $operator state of the columns that the query has now, found state of other columns: " +
          "the query must start from a new checkpoint"
      )
  }
}

private[spark] object StateFormat {
  val Bytes: Int = 1 + 4
}
