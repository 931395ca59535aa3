package io.headrace.functions

import java.io.{FileDescriptor, FileInputStream, FileOutputStream}
import java.lang.reflect.{InvocationHandler, Method, Proxy}
import java.net.{InetAddress, UnknownHostException}
import java.util.stream.Stream

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

/** Names of hosts, which the server looks up (ADR 78): no server of names is in reach of this process.
  *
  * A request is a packet on an inherited connection, whose number is `descriptor`, and so is the answer.
  */
private[functions] final class HostNames(descriptor: Int) extends InvocationHandler {
  private val json = new ObjectMapper
  private val (input, output) = {
    val constructor = classOf[FileDescriptor].getDeclaredConstructor(classOf[Int])
    constructor.setAccessible(true)
    val connection = constructor.newInstance(Int.box(descriptor))
    (new FileInputStream(connection), new FileOutputStream(connection))
  }

  override def invoke(proxy: Object, method: Method, arguments: Array[Object]): Object = method.getName match {
    case "lookupByName"      => Stream.of(addresses(arguments(0).toString): _*)
    case "lookupAllHostAddr" => addresses(arguments(0).toString)
    case _                   => throw new UnknownHostException("addresses have no names here")
  }

  private def addresses(name: String): Array[InetAddress] = synchronized {
    output.write(json.writeValueAsBytes(java.util.Map.of("name", name)))
    val packet = new Array[Byte](HostNames.PacketBytesMax)
    val answer = json.readTree(packet, 0, math.max(0, input.read(packet)))
    if (!answer.hasNonNull("addresses"))
      throw new UnknownHostException(s"$name: ${answer.path("error").asText("the server does not answer")}")
    answer.get("addresses").asScala.map(each => InetAddress.getByAddress(name, InetAddress.getByName(each.asText).getAddress)).toArray
  }
}

private[functions] object HostNames {
  private val PacketBytesMax = 1 << 16

  /** Let this JVM look names up at the other end of an inherited connection. */
  def lookUpThrough(descriptor: Int): Unit = {
    // The interface for it is Java 18's, and before that a private one.
    val (place, name) =
      if (Runtime.version.feature >= 18) ("resolver", "java.net.spi.InetAddressResolver")
      else ("nameService", "java.net.InetAddress$NameService")
    val kind = Class.forName(name)
    val field = classOf[InetAddress].getDeclaredField(place)
    field.setAccessible(true)
    field.set(null, Proxy.newProxyInstance(kind.getClassLoader, Array[Class[_]](kind), new HostNames(descriptor)))
  }
}
