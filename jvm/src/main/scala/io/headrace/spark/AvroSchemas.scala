package io.headrace.spark

import org.apache.avro.Schema

private[spark] object AvroSchemas {

  /** A parser that accepts a default that does not fit its type, as Avro's readers of files and Confluent's deserializer do.
    *
    * Registries hold many such schemas of times when no writer was checked. Records are decoded without the defaults of their schema.
    */
  def parser(): Schema.Parser = new Schema.Parser().setValidateDefaults(false)
}
