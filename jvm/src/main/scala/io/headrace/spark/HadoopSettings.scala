package io.headrace.spark

import java.io.{InputStream, OutputStream}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkConf
import org.apache.spark.serializer._
import org.apache.spark.util.SerializableConfiguration

object HadoopSettings {
  private lazy val origins = {
    val field = classOf[Configuration].getDeclaredField("updatingResource")
    field.setAccessible(true)
    field
  }

  /** Forgets of each setting from which file it came, which nobody asks for.
    *
    * Spark writes Hadoop's settings, hundreds, for each stateful operator of each batch, and Hadoop compresses the origin of
    * every one for itself: that takes longer than what a small batch does with its state.
    */
  def forgetOrigins(settings: Configuration): Unit = {
    // Else they are read, with their origins, when they are first asked for.
    val _ = settings.size()
    origins.set(settings, null)
  }
}

/** Serializer for `spark.serializer`: Java's, which forgets the origins of Hadoop's settings before it writes them.
  * Spark adds its own settings to those of Hadoop for each operator, so that forgetting them once does not suffice.
  */
final class HadoopSettingsSerializer(conf: SparkConf) extends JavaSerializer(conf) {

  // For what reads it from bytes.
  def this() = this(new SparkConf())

  override def newInstance(): SerializerInstance = new SerializerInstance {
    private val java = HadoopSettingsSerializer.super.newInstance()

    override def serializeStream(out: OutputStream): SerializationStream = new SerializationStream {
      private val stream = java.serializeStream(out)

      override def writeObject[T: ClassTag](written: T): SerializationStream = {
        written match {
          case settings: SerializableConfiguration => HadoopSettings.forgetOrigins(settings.value)
          case _                                   =>
        }
        stream.writeObject(written)
        this
      }
      override def flush(): Unit = stream.flush()
      override def close(): Unit = stream.close()
    }

    override def serialize[T: ClassTag](written: T): ByteBuffer = java.serialize(written)
    override def deserialize[T: ClassTag](bytes: ByteBuffer): T = java.deserialize(bytes)
    override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T = java.deserialize(bytes, loader)
    override def deserializeStream(in: InputStream): DeserializationStream = java.deserializeStream(in)
  }
}
