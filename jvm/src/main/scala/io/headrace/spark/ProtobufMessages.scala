package io.headrace.spark

import java.util.Base64

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.google.protobuf.DescriptorProtos.FileDescriptorSet
import com.google.protobuf.Descriptors.{Descriptor, FieldDescriptor, FileDescriptor}
import com.google.protobuf.Descriptors.FieldDescriptor.Type

/** Message types, linked. */
private[spark] object ProtobufMessages {
  val Timestamp = "google.protobuf.Timestamp"
  private val Wrappers = "google/protobuf/wrappers.proto"

  /** The files of a FileDescriptorSet, in which each stands behind those that it imports. */
  def files(set: Array[Byte]): Seq[FileDescriptor] = {
    val linked = mutable.LinkedHashMap.empty[String, FileDescriptor]
    for (file <- FileDescriptorSet.parseFrom(set).getFileList.asScala) {
      val imports = file.getDependencyList.asScala.map(linked).toArray
      linked(file.getName) = FileDescriptor.buildFrom(file, imports)
    }
    linked.values.toSeq
  }

  /** The message of that full name in a FileDescriptorSet, in base64. */
  def named(set: String, message: String): Descriptor =
    files(Base64.getDecoder.decode(set)).flatMap(file => file.getMessageTypes.asScala.flatMap(withNested)).find(_.getFullName == message)
      .getOrElse(throw new IllegalArgumentException(s"expected descriptors with the message $message, found others"))

  /** The message at a place in its file, as Confluent's serializers count: without the entries of maps. */
  def at(file: FileDescriptor, indexes: Seq[Int]): Option[Descriptor] =
    indexes.tail.foldLeft(messages(file.getMessageTypes).lift(indexes.head))((parent, index) =>
      parent.flatMap(message => messages(message.getNestedTypes).lift(index))
    )

  /** The field that a wrapper, as google.protobuf.Int64Value, has. */
  def wrapped(message: Descriptor): Option[FieldDescriptor] =
    Option.when(message.getFile.getName == Wrappers)(message.findFieldByName("value"))

  /** Name of a field's type in errors. */
  def typeName(field: FieldDescriptor): String = {
    val single = field.getType match {
      case Type.MESSAGE | Type.GROUP => field.getMessageType.getFullName
      case other                     => other.name.toLowerCase
    }
    if (field.isMapField) "a map" else if (field.isRepeated) s"repeated $single" else single
  }

  private def messages(all: java.util.List[Descriptor]): Seq[Descriptor] = all.asScala.filterNot(_.getOptions.getMapEntry).toSeq

  private def withNested(message: Descriptor): Seq[Descriptor] = message +: message.getNestedTypes.asScala.flatMap(withNested).toSeq
}
