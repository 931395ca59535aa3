package io.headrace.spark

import scala.collection.immutable.ArraySeq

class KeyIndexSuite extends munit.FunSuite {
  private val index = KeyIndex(ArraySeq(10L, 20L), 7, ArraySeq(ChunkRef(5, -3L), ChunkRef(6, 9L)), ArraySeq(-5L, 0L, 8L))

  test("an index comes back as it was") {
    assertEquals(KeyIndex.decode(KeyIndex.encode(index, 42), 42), index)
    assertEquals(KeyIndex.decode(KeyIndex.encode(KeyIndex.Empty, 0), 0), KeyIndex.Empty)
  }

  test("state of other columns is refused, not misread") {
    val error = intercept[IllegalStateException](KeyIndex.decode(KeyIndex.encode(index, 42), 43))
    assert(error.getMessage.contains("new checkpoint"), error.getMessage)
  }

  test("the version at a time is the last that is not after it") {
    assertEquals(Seq(-6L, -5L, -1L, 0L, 7L, 8L, 99L).map(index.versionAt), Seq(-1, 0, 0, 1, 1, 2, 2))
    assertEquals(KeyIndex.Empty.versionAt(3L), -1)
  }

  test("the rows of a chunk come back as they were") {
    val rows = Seq(BufferedRow(-1L, Array[Byte](1, 2, 3)), BufferedRow(5L, Array.emptyByteArray))
    val decoded = Chunk.decode(Chunk.encode(rows))
    assertEquals(decoded.toSeq.map(row => (row.time, row.payload.toSeq)), rows.map(row => (row.time, row.payload.toSeq)))
  }
}
