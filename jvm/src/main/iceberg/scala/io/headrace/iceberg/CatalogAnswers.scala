package io.headrace.iceberg

import java.lang.reflect.{InvocationTargetException, Proxy}
import java.util

import scala.jdk.CollectionConverters.{MapHasAsJava, MapHasAsScala}

import org.apache.iceberg.rest.RESTClient
import org.apache.iceberg.rest.responses.ConfigResponse

/** Settings accepted from a REST catalog: not its own address and that of its tokens, nor classes to load. */
object CatalogAnswers {

  private val Believed = Set("prefix", "namespace-separator") ++ StoreFiles.Told

  /** A client whose answers are believed that far. */
  def apply(client: RESTClient): RESTClient =
    Proxy
      .newProxyInstance(
        getClass.getClassLoader,
        Array(classOf[RESTClient]),
        (_, method, given) =>
          try
            method.invoke(client, Option(given).getOrElse(Array.empty[AnyRef]): _*) match {
              case settings: ConfigResponse => believed(settings)
              case other: RESTClient => apply(other)
              case answer => answer
            }
          catch { case error: InvocationTargetException => throw error.getCause }
      )
      .asInstanceOf[RESTClient]

  /** The settings that lead nowhere else. */
  def believed(settings: ConfigResponse): ConfigResponse =
    ConfigResponse
      .builder()
      .withDefaults(chosen(settings.defaults()))
      .withOverrides(chosen(settings.overrides()))
      .withEndpoints(settings.endpoints())
      .build()

  private def chosen(settings: util.Map[String, String]): util.Map[String, String] =
    settings.asScala.filter { case (name, _) => Believed(name) }.asJava
}
