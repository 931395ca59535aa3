package io.headrace.spark

import java.nio.ByteBuffer

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.util.Random

class SignedJoinSuite extends PatientSuite {
  import SignedJoinSuite._

  private val kinds = Seq("inner", "left", "right", "full", "semi", "anti")

  for (how <- kinds; conditional <- Seq(false, true))
    test(s"however changes are ordered and cut, their sum is the join ($how${if (conditional) " on a condition" else ""})") {
      for (seed <- 1 to 40) {
        val random = new Random(seed)
        val key = new Key(how, if (conditional) Together else null)
        val (left, right) = (relation(random), relation(random))
        val changes = random.shuffle(left.changes.map((true, _)) ++ right.changes.map((false, _)))
        cut(changes, random).foreach { batch =>
          key.change(batch.collect { case (true, change) => change }, batch.collect { case (false, change) => change })
        }
        assertEquals(key.sum, expected(how, conditional, left.rows, right.rows), s"seed $seed")
      }
    }

  for (how <- kinds)
    test(s"with closing times only final rows come out, whatever the order ($how)") {
      for (seed <- 1 to 40) {
        val random = new Random(seed)
        val key = new Key(how, Together, closes = true)
        val (left, right) = (numbers(random), numbers(random))
        val rows = random.shuffle(left.map((true, _)) ++ right.map((false, _)))
        cut(rows, random).foreach { batch =>
          key.change(
            batch.collect { case (true, number) => (number, 1) },
            batch.collect { case (false, number) => (number, 1) },
            closesMicros = 10
          )
        }
        key.close(9)
        key.close(10)
        assert(key.emitted.forall(_._2 > 0), s"seed $seed: ${key.emitted}")
        assertEquals(key.sum, expected(how, conditional = true, left, right), s"seed $seed")
        assert(key.isEmpty, s"seed $seed")
      }
    }

  test("a new version replaces the one that is joined, without a row alone in between") {
    val key = new Key("left", null)
    key.change(Seq((1, 1)), Seq((7, 1)))
    key.emitted.clear()
    key.change(Nil, Seq((8, 1), (7, -1)))
    assertEquals(key.emitted.toSet, Set[(Pair, Int)](((Some(1), Some(8)), 1), ((Some(1), Some(7)), -1)))
  }

  test("a semi join without a condition looks at no row when the other side has some before and after") {
    val key = new Key("semi", null)
    key.change((0 until 5000).map(number => (number, 1)), Seq((1, 1)))
    key.chunks.reads = 0
    key.emitted.clear()
    key.change(Nil, Seq((2, 1), (1, -1)))
    assertEquals((key.emitted.toSeq, key.chunks.reads), (Nil, 0))
  }

  test("one row of many costs one chunk, and no chunk is left when they are gone") {
    val key = new Key("inner", null)
    val all = (0 until 20000).map(number => (number, 1))
    all.grouped(500).foreach(some => key.change(some, Nil))
    assert(key.chunks.held.size > 50, s"${key.chunks.held.size} chunks")
    assert(key.chunks.held.valuesIterator.map(_.length).max < 16 * 1024)
    key.chunks.reads = 0
    key.change(Seq((17, -1), (20001, 1)), Nil)
    assert(key.chunks.reads <= 3, s"${key.chunks.reads} chunks read")
    key.change(Nil, Seq((3, 1)))
    assertEquals(key.emitted.size, 20000)
    key.change(Seq((20001, -1)) ++ all.filter(_._1 != 17).map { case (number, _) => (number, -1) }, Seq((3, -1)))
    assert(key.isEmpty)
    assertEquals(key.chunks.held.size, 0)
    assertEquals(key.sum, Map.empty[Pair, Int])
  }
}

private object SignedJoinSuite {
  type Pair = (Option[Int], Option[Int])

  private val Together: (Array[Byte], Array[Byte]) => Boolean = (left, right) => fits(number(left), number(right))

  private def fits(left: Int, right: Int): Boolean = (left + right) % 3 != 0

  private final case class Relation(rows: Seq[Int], changes: Seq[(Int, Int)])

  /** Rows, some of them more than once, and changes that lead to them. */
  private def relation(random: Random): Relation = {
    val rows = numbers(random)
    val gone = numbers(random)
    Relation(rows, (rows ++ gone).map((_, 1)) ++ gone.map((_, -1)))
  }

  private def numbers(random: Random): Seq[Int] = Seq.fill(random.nextInt(6))(random.nextInt(4))

  private def cut[T](all: Seq[T], random: Random): Seq[Seq[T]] =
    if (all.isEmpty) Nil
    else {
      val (first, rest) = all.splitAt(1 + random.nextInt(all.size))
      first +: cut(rest, random)
    }

  private def expected(how: String, conditional: Boolean, left: Seq[Int], right: Seq[Int]): Map[Pair, Int] = {
    def meets(one: Int, other: Int) = !conditional || fits(one, other)
    val pairs = for (one <- left; other <- right if meets(one, other)) yield (Option(one), Option(other))
    val (matched, unmatched) = left.partition(one => right.exists(meets(one, _)))
    val strangers = right.filterNot(other => left.exists(meets(_, other)))
    val leftAlone = unmatched.map(one => (Option(one), Option.empty[Int]))
    val rightAlone = strangers.map(other => (Option.empty[Int], Option(other)))
    val rows = how match {
      case "inner" => pairs
      case "left"  => pairs ++ leftAlone
      case "right" => pairs ++ rightAlone
      case "full"  => pairs ++ leftAlone ++ rightAlone
      case "semi"  => matched.map(one => (Option(one), Option.empty[Int]))
      case "anti"  => leftAlone
    }
    rows.groupBy(identity).view.mapValues(_.size).toMap
  }

  private def payload(number: Int): Array[Byte] = ByteBuffer.allocate(64).putInt(number).array()
  private def number(payload: Array[Byte]): Int = ByteBuffer.wrap(payload).getInt()

  private final class Held extends RowChunks {
    val held: mutable.HashMap[Int, Array[Byte]] = mutable.HashMap.empty
    var reads: Int = 0
    override def read(number: Int): Array[Byte] = {
      reads += 1
      held.getOrElse(number, null)
    }
    override def write(number: Int, rows: Array[Byte]): Unit = held(number) = rows
    override def remove(number: Int): Unit = held.remove(number)
  }

  /** One key, whose rows are written and read again at each call. */
  private final class Key(how: String, meets: (Array[Byte], Array[Byte]) => Boolean, closes: Boolean = false) {
    val emitted: ArrayBuffer[(Pair, Int)] = ArrayBuffer.empty
    val chunks = new Held
    private val rightChunks = new Held
    private val join = new SignedJoin(JoinKind.parse(how), meets, (closes, closes))
    private var stored = Option.empty[Array[Byte]]

    def sum: Map[Pair, Int] =
      emitted.groupMapReduce(_._1)(_._2)(_ + _).filter(_._2 != 0)

    def isEmpty: Boolean = stored.isEmpty

    def change(left: Seq[(Int, Int)], right: Seq[(Int, Int)], closesMicros: Long = Long.MaxValue): Unit = {
      def changes(numbers: Seq[(Int, Int)]) =
        numbers.map { case (number, weight) => new Change(payload(number), weight, closesMicros) }.to(ArrayBuffer)
      withRows((ours, theirs) => join.change(changes(left), changes(right), ours, theirs, Long.MinValue)(emit))
    }

    def close(watermarkMicros: Long): Unit = withRows((ours, theirs) => join.close(ours, theirs, watermarkMicros)(emit))

    private val emit: SignedJoin.Emit = (left, right, weight) =>
      emitted += (((Option(left).map(number), Option(right).map(number)), weight))

    private def withRows(work: (JoinRows, JoinRows) => Unit): Unit = {
      val (left, right) = (new JoinRows(join.leftLayout, chunks), new JoinRows(join.rightLayout, rightChunks))
      stored.map(ByteBuffer.wrap).foreach { in =>
        left.take(in)
        right.take(in)
      }
      work(left, right)
      val out = ByteBuffer.allocate(left.headBytes + right.headBytes)
      left.put(out)
      right.put(out)
      assert(!out.hasRemaining)
      stored = Option.when(!left.isEmpty || !right.isEmpty)(out.array())
    }
  }
}
