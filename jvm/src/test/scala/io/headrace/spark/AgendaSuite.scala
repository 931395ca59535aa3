package io.headrace.spark

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.sql.streaming.{MapState, ValueState}

class AgendaSuite extends PatientSuite {
  import AgendaSuite._

  test("what is due comes out in order of time, then kind, then arrival, however it came") {
    for (seed <- 1 to 20) {
      val random = new Random(seed)
      val group = new Group
      val all = (0 until 400).map(number => item(random.nextInt(200) * 1000L, (number % 2).toByte, number, random.nextInt(300)))
      all.grouped(1 + random.nextInt(60)).foreach(group.add)
      val taken = Seq(20L, 21L, 150L, 1000L).flatMap { watermarkMs =>
        val due = group.take(watermarkMs)
        assert(due.forall(_.time <= watermarkMs * 1000), s"seed $seed")
        due
      }
      assertEquals(taken.map(numbered), all.sortBy(item => (item.time, item.kind)).map(numbered), s"seed $seed")
      assertEquals(group.chunks.held.size, 0)
    }
  }

  test("items that come one by one lie in few chunks of bounded size") {
    val group = new Group
    for (number <- 0 until 4000) group.add(Seq(item(number * 1000L, 0, number, 100)))
    assert(group.chunks.held.size < 40, s"${group.chunks.held.size} chunks")
    assert(group.chunks.held.valuesIterator.map(_.length).max <= 32 * 1024)
    assertEquals(group.take(4000).size, 4000)
  }

  test("a group is woken for what is due first, and not twice for the same") {
    val group = new Group
    group.add(Seq(item(7_000_500, 0, 1, 1), item(9_000_000, 0, 2, 1)))
    group.add(Seq(item(8_000_000, 0, 3, 1)))
    group.add(Seq(item(5_000_000, 0, 4, 1)))
    assertEquals(group.woken.toSeq, Seq(7000L, 5000L))
  }

  test("state of other columns or of another version is refused, not misread") {
    val group = new Group
    group.add(Seq(item(1, 0, 1, 1)))
    for (other <- Seq(new StateFormat("join", 1, 43), new StateFormat("join", 2, 42))) {
      val error = intercept[IllegalStateException](group.opened(other).load())
      assert(error.getMessage.contains("new checkpoint"), error.getMessage)
    }
  }
}

private object AgendaSuite {
  private def item(time: Long, kind: Byte, number: Int, size: Int): Due =
    Due(time, kind, if (number % 7 == 0) null else BigInt(number).toByteArray, Array.fill(size)(number.toByte))

  private def numbered(due: Due): (Long, Byte, Option[Seq[Byte]], Seq[Byte]) =
    (due.time, due.kind, Option(due.key).map(_.toSeq), due.payload.toSeq)

  private final class Group extends OperatorTime {
    val chunks = new HeldMap
    val woken: ArrayBuffer[Long] = ArrayBuffer.empty
    private val index = new HeldValue
    private val agenda = opened(new StateFormat("join", 1, 42))

    def opened(format: StateFormat): Agenda = {
      val agenda = new Agenda(format)
      agenda.open(index, chunks)
      agenda
    }

    def add(items: Seq[Due]): Unit = {
      val loaded = agenda.load()
      agenda.store(agenda.add(loaded, items.to(ArrayBuffer)), loaded, this)
    }

    def take(watermarkMs: Long): Seq[Due] = {
      val loaded = agenda.load()
      val (rest, due) = agenda.takeDue(loaded, watermarkMs)
      agenda.store(rest, loaded, this)
      due.toSeq
    }

    override def watermarkMs: Long = 0
    override def wakeAt(ms: Long): Unit = woken += ms
    override def cancel(ms: Long): Unit = woken -= ms
  }

  private final class HeldValue extends ValueState[Array[Byte]] {
    private var value: Array[Byte] = _
    override def exists(): Boolean = value != null
    override def get(): Array[Byte] = value
    override def update(newState: Array[Byte]): Unit = value = newState
    override def clear(): Unit = value = null
  }

  private final class HeldMap extends MapState[Int, Array[Byte]] {
    val held: mutable.HashMap[Int, Array[Byte]] = mutable.HashMap.empty
    override def exists(): Boolean = held.nonEmpty
    override def getValue(key: Int): Array[Byte] = held.getOrElse(key, null)
    override def containsKey(key: Int): Boolean = held.contains(key)
    override def updateValue(key: Int, value: Array[Byte]): Unit = held(key) = value
    override def iterator(): Iterator[(Int, Array[Byte])] = held.iterator
    override def keys(): Iterator[Int] = held.keysIterator
    override def values(): Iterator[Array[Byte]] = held.valuesIterator
    override def removeKey(key: Int): Unit = held.remove(key)
    override def clear(): Unit = held.clear()
  }
}
