package io.headrace.iceberg

import java.util

import scala.jdk.CollectionConverters.{MapHasAsJava, MapHasAsScala}

import org.apache.iceberg.aws.s3.S3FileIO
import org.apache.iceberg.io.FileIO

/** The files of a store's tables: on S3, as the store's properties say. */
object StoreFiles {

  private val Keys = Seq("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
  private val Prefixes = Seq("s3.", "client.", "http-client.")
  private val Region = "client.region"

  /** Settings that a catalog may send. */
  val Told: Seq[String] = Keys :+ Region
  private val Provider = "client.credentials-provider"
  // Without keys: never the identity that this machine has.
  private val Nobody = Map(Provider -> "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider")

  /** Keys of the catalog are used if the store has none, and the region likewise. */
  def apply(store: util.Map[String, String], settings: util.Map[String, String]): FileIO = {
    val own = store.asScala.filter { case (name, _) => Prefixes.exists(name.startsWith) }.toMap
    val known = own.contains(Keys.head) || own.contains(Provider)
    val keys = if (known) Map.empty[String, String] else chosen(settings, Keys)
    val nobody = if (known || keys.contains(Keys.head)) Map.empty[String, String] else Nobody
    val files = new S3FileIO()
    files.initialize((chosen(settings, Seq(Region)) ++ own ++ keys ++ nobody).asJava)
    files
  }

  private def chosen(settings: util.Map[String, String], names: Seq[String]): Map[String, String] =
    names.flatMap(name => Option(settings.get(name)).map(name -> _)).toMap
}
