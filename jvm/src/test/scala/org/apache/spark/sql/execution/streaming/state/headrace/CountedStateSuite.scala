package org.apache.spark.sql.execution.streaming.state
package headrace

import java.nio.file.Path
import java.util.UUID

import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StructField, StructType}

import io.headrace.spark.{PatientSuite, SparkTesting}

class CountedStateSuite extends PatientSuite {
  private val kind = StructType(Seq(StructField("n", LongType)))
  private val unsafe = UnsafeProjection.create(kind)
  private val Main = StateStore.DEFAULT_COL_FAMILY_NAME
  private val Other = "other"
  private val Internal = "$internal"
  private val ours = classOf[CountedStateStoreProvider].getName
  private val sparks = classOf[RocksDBStateStoreProvider].getName

  private def row(number: Long): UnsafeRow = unsafe(InternalRow(number)).copy()

  private def opened(folder: Path, families: Boolean, provider: String): StateStoreProvider = {
    SparkTesting.spark.streams // the stores report to them
    val settings = new SQLConf
    settings.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, provider)
    settings.setConfString("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    settings.setConf(SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT, 3)
    val run = UUID.randomUUID()
    val hadoop = new Configuration()
    hadoop.set(StreamExecution.RUN_ID_KEY, run.toString)
    StateStoreProvider.createAndInit(
      StateStoreProviderId(StateStoreId(folder.toString, 0, 0), run),
      kind,
      kind,
      NoPrefixKeyStateEncoderSpec(kind),
      families,
      new StateStoreConf(settings),
      hadoop,
      useMultipleValuesPerKey = false,
      stateSchemaProvider = Some(new TestStateSchemaProvider)
    )
  }

  /** What a store should hold, by family and key, and what is done to both. */
  private final class Change(random: Random, store: StateStore, families: Seq[String]) {
    val rows: mutable.Set[(String, Long)] = mutable.Set.empty

    def one(): Unit = {
      val family = families(random.nextInt(families.size))
      val number = random.nextInt(40).toLong
      random.nextInt(6) match {
        case 0 => store.get(row(number), family)
        case 1 => put(family, number)
        case 2 => if (store.get(row(number), family) == null) put(family, number) else remove(family, number)
        case 3 =>
          store.get(row(number), family)
          put(family, number)
        case 4 => remove(family, number)
        case 5 =>
          val below = random.nextInt(20)
          store.iterator(family).foreach { pair => if (pair.key.getLong(0) < below) remove(family, pair.key.getLong(0)) }
      }
    }

    private def put(family: String, number: Long): Unit = {
      store.put(row(number), row(random.nextLong()), family)
      rows += family -> number
    }

    private def remove(family: String, number: Long): Unit = {
      store.remove(row(number), family)
      rows -= family -> number
    }
  }

  for (families <- Seq(false, true))
    test(s"rows are counted right through writes, removals, aborts and restarts ${if (families) "in families" else "in one store"}") {
      for (seed <- 1 to SparkTesting.amount(few = 4, all = 8)) {
        val random = new Random(seed)
        val folder = SparkTesting.newCheckpoint()
        var kept = Set.empty[(String, Long)]
        var version = 0L
        while (version < 12) {
          val provider = opened(folder, families, if (random.nextInt(4) == 0) sparks else ours)
          for (_ <- 0 to random.nextInt(4)) {
            val store = provider.getStore(version)
            if (families) {
              store.createColFamilyIfAbsent(Other, kind, kind, NoPrefixKeyStateEncoderSpec(kind))
              store.createColFamilyIfAbsent(Internal, kind, kind, NoPrefixKeyStateEncoderSpec(kind), isInternal = true)
            }
            val change = new Change(random, store, if (families) Seq(Main, Other, Internal) else Seq(Main))
            change.rows ++= kept
            for (_ <- 0 to random.nextInt(60)) change.one()
            if (random.nextInt(5) == 0) store.abort()
            else {
              version = store.commit()
              kept = change.rows.toSet
              assertEquals(store.metrics.numKeys, kept.count(_._1 != Internal).toLong, s"seed $seed, version $version")
            }
          }
          provider.close()
        }
      }
    }

  test("a key that was read is not looked up again to be written or removed, nor one that was iterated over") {
    val provider = opened(SparkTesting.newCheckpoint(), families = false, ours)
    provider.getStore(0).commit()
    def lookUps(version: Long)(change: StateStore => Unit): Long = {
      val store = provider.getStore(version)
      change(store)
      store.commit()
      store.metrics.customMetrics.collectFirst { case (metric, count) if metric.name == "rocksdbGetCount" => count }.get
    }
    val keys = (1L to 100L).map(row)
    assertEquals(lookUps(1)(store => keys.foreach { key => store.get(key, Main); store.put(key, key, Main) }), 100L)
    assertEquals(lookUps(2)(store => store.iterator(Main).foreach(pair => store.remove(pair.key, Main))), 0L)
    assertEquals(lookUps(3)(store => keys.foreach(key => store.put(key, key, Main))), 100L)
    provider.close()
  }
}
