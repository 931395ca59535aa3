package io.headrace.iceberg

import java.util
import java.util.function.{Function => JFunction}

import org.apache.iceberg.rest.{RESTCatalog, RESTClient, RESTSessionCatalog}

/** A REST catalog that says nothing of where it and its files are but their bucket and, if the store has none, the keys for it.
  *
  * Iceberg's own takes any property from the catalog's answers: the class that reads files, on this machine too, and the addresses that
  * it connects to. Who runs a catalog is not to have that.
  */
class StoreRestCatalog extends RESTCatalog {

  private var store: util.Map[String, String] = util.Map.of()

  override def initialize(name: String, properties: util.Map[String, String]): Unit = {
    store = util.Map.copyOf(properties)
    super.initialize(name, properties)
  }

  // Called by the constructor above us, so that it may only look at `store` later.
  override protected def newSessionCatalog(
      client: JFunction[util.Map[String, String], RESTClient]
  ): RESTSessionCatalog =
    new RESTSessionCatalog(settings => CatalogAnswers(client(settings)), (_, properties) => StoreFiles(store, properties))
}
