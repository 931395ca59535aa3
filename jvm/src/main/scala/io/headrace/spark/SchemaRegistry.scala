package io.headrace.spark

import java.io.{ByteArrayInputStream, IOException}
import java.net.{Socket, URI, URLEncoder}
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.{KeyFactory, KeyStore, PrivateKey}
import java.security.cert.{Certificate, CertificateFactory, X509Certificate}
import java.security.spec.{InvalidKeySpecException, PKCS8EncodedKeySpec}
import java.time.Duration
import java.util.Base64
import java.util.concurrent.ConcurrentHashMap
import javax.net.ssl.{KeyManager, KeyManagerFactory, SSLContext, SSLEngine, TrustManager, TrustManagerFactory, X509ExtendedTrustManager, X509TrustManager}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.google.protobuf.Descriptors.FileDescriptor
import org.apache.avro.{AvroRuntimeException, Schema}
import org.apache.spark.headrace.{Question, Questions}

/** Client of a schema registry in tasks, in Confluent's protocol: each schema is requested once by its id.
  *
  * What was found is kept, so that records with known schemas are read on while the registry is down. An id that it does
  * not know is asked for again after a while. `properties` are what `connectors.schema_registry.options.connection` gives.
  *
  * Expressions hold it, and take it to their tasks: each process has a client of its own.
  */
private[spark] final class SchemaRegistry(name: String, properties: Map[String, String]) extends Serializable {
  import SchemaRegistry._

  private val uris = properties("uris").split(",").toSeq
  private val avro = new Kept("AVRO", parsedAvro)
  private val protobuf = new Kept("PROTOBUF", parsedProtobuf)
  private val authorization = properties.get("auth").collect {
    case "basic" => "Basic " + Base64.getEncoder.encodeToString(s"${properties("username")}:${properties("password")}".getBytes(UTF_8))
    case "token" => "Bearer " + properties("token")
  }
  private lazy val client = {
    val builder = HttpClient.newBuilder.connectTimeout(Timeout).followRedirects(HttpClient.Redirect.NEVER).version(HttpClient.Version.HTTP_1_1)
    if (uris.head.startsWith("https:")) builder.sslContext(tls(properties))
    builder.build()
  }

  def hasProperties(others: Map[String, String]): Boolean = others == properties

  override def toString: String = name // the properties have secrets

  private def writeReplace(): AnyRef = new Reference(name, properties)

  /** The Avro schema of an id; None when the registry does not know it. Throws [[RegistryAway]] when it gives no answer. */
  def schema(id: Int): Option[Schema] = avro.get(id)

  /** The file of a Protobuf schema by its id, requested once. */
  def messages(id: Int): Option[FileDescriptor] = protobuf.get(id)

  /** Schemas of one type, as `parse` makes them, which throws [[Unreadable]]. */
  private final class Kept[T](kind: String, parse: JsonNode => T) {
    private val known = new ConcurrentHashMap[Int, T]()
    private val unknown = new ConcurrentHashMap[Int, Long]()

    def get(id: Int): Option[T] =
      Option(known.get(id)).orElse {
        if (System.nanoTime() - unknown.getOrDefault(id, Long.MinValue / 2) < AskAgainNanos) None
        else synchronized(Option(known.get(id)).orElse(asked(id)))
      }

    private def asked(id: Int): Option[T] = ask(s"/schemas/ids/$id") match {
      case None =>
        unknown.put(id, System.nanoTime())
        None
      case Some(schema) =>
        val own = Option(schema.get("schemaType")).fold("AVRO")(_.asText)
        if (own != kind) throw new Unreadable(s"its schema $id is of the type $own, not $kind")
        val parsed =
          try parse(schema)
          catch { case bad: Unreadable => throw new Unreadable(s"its schema $id cannot be read: ${bad.getMessage}") }
        known.put(id, parsed)
        Some(parsed)
    }
  }

  private def parsedAvro(schema: JsonNode): Schema =
    try {
      val parser = AvroSchemas.parser()
      for ((_, text) <- referenced(schema)) parser.parse(text)
      parser.parse(schema.get("schema").asText)
    } catch { case error: AvroRuntimeException => throw new Unreadable(error.getMessage) }

  /** The driver's Python reads the texts of `.proto` files: there is one parser. */
  private def parsedProtobuf(schema: JsonNode): FileDescriptor = {
    val question = mapper.createObjectNode().put("text", schema.get("schema").asText)
    val files = question.putObject("imports")
    for ((name, text) <- referenced(schema)) files.put(name, text)
    val answer = mapper.readTree(Questions.ask(DescriptorsOf(mapper.writeValueAsString(question))))
    if (answer.has("reason")) throw new Unreadable(answer.get("reason").asText)
    ProtobufMessages.files(Base64.getDecoder.decode(answer.get("descriptors").asText)).last
  }

  /** References of a schema by name, each behind its own references. */
  private def referenced(schema: JsonNode): Seq[(String, String)] = {
    val references = mutable.ArrayBuffer.empty[(String, String)]
    val seen = mutable.Set.empty[(String, String, Int)]
    def visit(node: JsonNode): Unit =
      for (reference <- Option(node.get("references")).fold(Seq.empty[JsonNode])(_.elements.asScala.toSeq)) {
        val (name, subject, version) = (reference.get("name").asText, reference.get("subject").asText, reference.get("version").asInt)
        if (seen.add((name, subject, version))) {
          val other = ask(s"/subjects/${URLEncoder.encode(subject, UTF_8)}/versions/$version")
            .getOrElse(throw new Unreadable(s"version $version of the subject $subject, to which it refers, does not exist"))
          visit(other)
          references += name -> other.get("schema").asText
        }
      }
    visit(schema)
    references.toSeq
  }

  /** The answer to a question; None for one that has none (404). */
  private def ask(path: String): Option[JsonNode] = {
    var failure = ""
    for (uri <- uris) {
      val request = HttpRequest.newBuilder(URI.create(uri + path)).timeout(Timeout).header("Accept", "application/vnd.schemaregistry.v1+json")
      authorization.foreach(request.header("Authorization", _))
      try {
        val answer = client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray())
        answer.statusCode match {
          case 200   => return Some(mapper.readTree(answer.body))
          case 404   => return None
          case other => failure = s"it answers with the HTTP status $other"
        }
      } catch {
        case error: IOException => failure = Option(error.getMessage).getOrElse(error.getClass.getSimpleName)
      }
    }
    throw new RegistryAway(name, failure)
  }
}

/** Makes message types of `.proto` files: of a question in JSON (`text`, and `imports` by their names) an answer in JSON, either
  * `descriptors`, a FileDescriptorSet in base64 whose last file is that of `text`, or the `reason` why there are none.
  */
trait ProtoFiles {
  def descriptors(question: String): String
}

/** A registry does not answer: the query waits for it. The message is for the driver; it names no address and no secret. */
private[spark] final class RegistryAway(registry: String, reason: String)
    extends RuntimeException(
      "HEADRACE_REGISTRY:" + Base64.getEncoder.encodeToString(
        new ObjectMapper().writeValueAsBytes(java.util.Map.of("registry", registry, "reason", reason))
      ) + ":"
    )

object SchemaRegistry {
  private val Timeout = Duration.ofSeconds(10)
  private val AskAgainNanos = 10L * 1000 * 1000 * 1000
  private val mapper = new ObjectMapper()
  @volatile private var protoFiles: ProtoFiles = _
  private val open = new ConcurrentHashMap[String, SchemaRegistry]()

  /** Lets expressions ask the registry that the catalog calls `name`. What it was asked before is known on, if it is the same. */
  def open(name: String, properties: java.util.Map[String, String]): Unit = { val _ = client(name, properties.asScala.toMap) }

  private def client(name: String, properties: Map[String, String]): SchemaRegistry = open.compute(
    name,
    (_, registered) => if (registered != null && registered.hasProperties(properties)) registered else new SchemaRegistry(name, properties)
  )

  private final class Reference(name: String, properties: Map[String, String]) extends Serializable {
    private def readResolve(): AnyRef = client(name, properties)
  }

  /** Driver: use `files` to read `.proto` files from now on. */
  def readBy(files: ProtoFiles): Unit = protoFiles = files

  private final case class DescriptorsOf(question: String) extends Question[String] {
    override def answer(): String = protoFiles.descriptors(question)
  }

  /** Driver: the registry of this name. */
  private[spark] def of(name: String): SchemaRegistry =
    Option(open.get(name)).getOrElse(throw new IllegalStateException(s"expected the schema registry $name to be open, found none"))

  private def tls(properties: Map[String, String]): SSLContext = {
    val trusted = properties.get("tls.ca_cert_file").map { pem =>
      val store = emptyStore()
      certificates(pem).zipWithIndex.foreach { case (certificate, index) => store.setCertificateEntry(s"ca$index", certificate) }
      store
    }
    val factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm)
    factory.init(trusted.orNull)
    val managers: Array[TrustManager] =
      if (properties.get("tls.verify_server_hostname").contains("FALSE"))
        factory.getTrustManagers.map { case manager: X509TrustManager => new AnyHost(manager) }
      else factory.getTrustManagers
    val context = SSLContext.getInstance("TLS")
    context.init(properties.get("tls.client.key_file").map(own(_, properties("tls.client.cert_file"))).orNull, managers, null)
    context
  }

  /** Certificates for a registry that asks its clients for one. */
  private def own(key: String, chain: String): Array[KeyManager] = {
    val bytes = new PKCS8EncodedKeySpec(Base64.getMimeDecoder.decode(key.replaceAll("-----[A-Z ]+-----", "")))
    def read(kind: String): Option[PrivateKey] =
      try Some(KeyFactory.getInstance(kind).generatePrivate(bytes))
      catch { case _: InvalidKeySpecException => None }
    val privateKey = Seq("RSA", "EC", "EdDSA").iterator.flatMap(read).nextOption()
      .getOrElse(throw new IllegalArgumentException("expected an RSA, EC or EdDSA private key in PKCS #8"))
    val store = emptyStore()
    store.setKeyEntry("own", privateKey, Array.emptyCharArray, certificates(chain).toArray)
    val factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm)
    factory.init(store, Array.emptyCharArray)
    factory.getKeyManagers
  }

  private def certificates(pem: String): Seq[Certificate] =
    CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem.getBytes(UTF_8))).asScala.toSeq

  private def emptyStore(): KeyStore = {
    val store = KeyStore.getInstance(KeyStore.getDefaultType)
    store.load(null, null)
    store
  }

  /** Trusts a certificate by its authority alone, whatever host it is for. */
  private final class AnyHost(trusted: X509TrustManager) extends X509ExtendedTrustManager {
    override def checkServerTrusted(chain: Array[X509Certificate], kind: String): Unit = trusted.checkServerTrusted(chain, kind)
    override def checkServerTrusted(chain: Array[X509Certificate], kind: String, socket: Socket): Unit = checkServerTrusted(chain, kind)
    override def checkServerTrusted(chain: Array[X509Certificate], kind: String, engine: SSLEngine): Unit = checkServerTrusted(chain, kind)
    override def checkClientTrusted(chain: Array[X509Certificate], kind: String): Unit = trusted.checkClientTrusted(chain, kind)
    override def checkClientTrusted(chain: Array[X509Certificate], kind: String, socket: Socket): Unit = checkClientTrusted(chain, kind)
    override def checkClientTrusted(chain: Array[X509Certificate], kind: String, engine: SSLEngine): Unit = checkClientTrusted(chain, kind)
    override def getAcceptedIssuers: Array[X509Certificate] = trusted.getAcceptedIssuers
  }
}
