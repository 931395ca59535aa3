package io.headrace.spark

import java.io.IOException
import java.util.{Collections, List => JavaList, Map => JavaMap, Set => JavaSet}
import java.util.concurrent.ConcurrentHashMap
import java.util.function.Supplier
import javax.security.auth.callback.{Callback, UnsupportedCallbackException}
import javax.security.auth.login.AppConfigurationEntry

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.kafka.common.security.auth.{AuthenticateCallbackHandler, SaslExtensions, SaslExtensionsCallback}
import org.apache.kafka.common.security.oauthbearer.{OAuthBearerToken, OAuthBearerTokenCallback}
import org.apache.spark.headrace.{Question, Questions}

/** Logs a Kafka client in with tokens that the driver's Python has: when it connects, and again before a token expires.
  *
  * The client's JAAS entry names the store, whose tokens [[KafkaLogin.register]] has said how to get.
  */
final class KafkaLogin extends AuthenticateCallbackHandler {
  private var store = ""

  override def configure(configs: JavaMap[String, _], mechanism: String, entries: JavaList[AppConfigurationEntry]): Unit =
    store = String.valueOf(entries.get(0).getOptions.get("store"))

  override def handle(callbacks: Array[Callback]): Unit = callbacks.foreach {
    case asked: OAuthBearerTokenCallback => asked.token(KafkaLogin.ask(store).token)
    case asked: SaslExtensionsCallback   => asked.extensions(KafkaLogin.ask(store).extensions)
    case other                           => throw new UnsupportedCallbackException(other)
  }

  override def close(): Unit = ()
}

object KafkaLogin {
  private val mapper = new ObjectMapper()
  private val stores = new ConcurrentHashMap[String, Supplier[String]]()

  /** Use `tokens` for `store` from now on: JSON with `token`, `principal`, `expiresMs` and `extensions`, or with
    * `error`.
    */
  def register(store: String, tokens: Supplier[String]): Unit = {
    val _ = stores.put(store, tokens)
  }

  private final case class Answer(token: OAuthBearerToken, extensions: SaslExtensions)

  private final case class TokenOf(store: String) extends Question[String] {
    override def answer(): String = stores.get(store).get()
  }

  private def ask(store: String): Answer = {
    val answer = mapper.readTree(Questions.ask(TokenOf(store)))
    if (answer.has("error")) throw new IOException(answer.get("error").asText)
    val extensions = new java.util.HashMap[String, String]()
    answer.get("extensions").properties().forEach(field => extensions.put(field.getKey, field.getValue.asText))
    Answer(
      Token(answer.get("token").asText, answer.get("principal").asText, answer.get("expiresMs").asLong),
      new SaslExtensions(extensions)
    )
  }

  private final case class Token(value: String, principalName: String, lifetimeMs: Long) extends OAuthBearerToken {
    override def scope: JavaSet[String] = Collections.emptySet()
    override val startTimeMs: java.lang.Long = System.currentTimeMillis()
    override def toString: String = "Token" // a client may log it
  }
}
