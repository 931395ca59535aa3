package io.headrace.spark

import java.net.InetAddress
import java.util.concurrent.TimeUnit
import javax.net.SocketFactory

import py4j.{CallbackClient, Gateway, JavaServer, PythonClient}

/** Spark's calls into Python (`foreachBatch`), with a token that Python's server asks for. */
object PythonCallbacks {

  /** Send calls to `port` of this machine with `token` from now on.
    *
    * py4j can tell its client a new port, but drops the token when it does; only its field takes a client with both.
    */
  def authenticate(server: JavaServer, port: Int, token: String): Unit = {
    val gateway = server.getGateway
    val client = new PythonClient(
      gateway,
      null,
      port,
      InetAddress.getLoopbackAddress,
      CallbackClient.DEFAULT_MIN_CONNECTION_TIME,
      TimeUnit.SECONDS,
      SocketFactory.getDefault,
      server,
      true,
      0,
      token
    )
    val field = classOf[Gateway].getDeclaredField("cbClient")
    field.setAccessible(true)
    field.set(gateway, client)
  }
}
