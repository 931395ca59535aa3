package io.headrace.spark

import org.apache.spark.util.AccumulatorV2
import sun.reflect.ReflectionFactory

class RowCountsSuite extends PatientSuite {

  /** As a task has it before it has read the fields. */
  private def unread[T](kind: Class[T]): T = {
    val constructor = classOf[Object].getConstructor()
    kind.cast(ReflectionFactory.getReflectionFactory.newConstructorForSerialization(kind, constructor).newInstance())
  }

  test("what a task registers before it has read it counts nothing yet: the executor's heartbeat may ask") {
    Seq[Class[_ <: AccumulatorV2[_, _]]](classOf[RowCounts], classOf[PartitionMaxima]).foreach { kind =>
      assert(unread(kind).isZero, kind.getSimpleName)
    }
  }
}
