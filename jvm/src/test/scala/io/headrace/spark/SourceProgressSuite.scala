package io.headrace.spark

class SourceProgressSuite extends PatientSuite {
  private val layout = new ManyEntities
  private def code(topic: String, partition: Int) = layout.code(topic, partition)

  test("a partition has rows when the batch moves it or the source is ahead of the batch") {
    val progress = SourceProgress.of(
      start = Some("""{"a":{"0":5,"1":5,"2":5},"b":{"0":1}}"""),
      end = Some("""{"a":{"0":6,"1":5,"2":5},"b":{"0":1}}"""),
      latest = Some("""{"a":{"0":6,"1":9,"2":5},"b":{"0":1}}"""),
      layout
    )
    val expected = Map(code("a", 0) -> true, code("a", 1) -> true, code("a", 2) -> false, code("b", 0) -> false)
    assertEquals(progress, SourceProgress.Partitions(expected))
  }

  test("before the first batch every row counts, and a new partition is one with rows") {
    val progress = SourceProgress.of(None, Some("""{"a":{"0":2,"1":0}}"""), Some("""{"a":{"0":2,"1":0}}"""), layout)
    assertEquals(progress, SourceProgress.Partitions(Map(code("a", 0) -> true, code("a", 1) -> false)))
  }

  test("offsets may be texts, and null is that of a partition that is finished") {
    val progress = SourceProgress.of(
      start = Some("""{"a":{"0":"49590","1":"49591"}}"""),
      end = Some("""{"a":{"0":"49590","1":null,"2":"0"}}"""),
      latest = Some("""{"a":{"0":"49590","1":null,"2":"0"}}"""),
      layout
    )
    val expected = Map(code("a", 0) -> false, code("a", 1) -> true, code("a", 2) -> false)
    assertEquals(progress, SourceProgress.Partitions(expected, Set(code("a", 1))))
  }

  test("without the end of the source nothing is known") {
    assertEquals(SourceProgress.of(Some("{}"), Some("""{"a":{"0":2}}"""), None, layout), SourceProgress.Unknown)
  }

  test("a source without partitions in its offsets is taken as a whole") {
    assertEquals(SourceProgress.of(Some("4"), Some("5"), Some("5"), layout), SourceProgress.Whole(hasRows = true))
    assertEquals(SourceProgress.of(Some("5"), Some("5"), Some("6"), layout), SourceProgress.Whole(hasRows = true))
    assertEquals(SourceProgress.of(Some("5"), Some("5"), Some("5"), layout), SourceProgress.Whole(hasRows = false))
    assertEquals(SourceProgress.of(Some("5"), Some("5"), None, layout), SourceProgress.Whole(hasRows = false))
  }

  test("a source that is read twice has rows where either reading has") {
    import SourceProgress._
    assertEquals(merge(Seq(Partitions(Map(0 -> true, 1 -> false)), Partitions(Map(0 -> false, 1 -> false)))), Partitions(Map(0 -> true, 1 -> false)))
    assertEquals(merge(Seq(Whole(false), Unknown)), Unknown)
    assertEquals(merge(Nil), Unknown)
  }
}
