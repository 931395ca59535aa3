package com.example;

import java.net.DatagramSocket;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.flink.table.functions.ScalarFunction;

/** Connects in the ways of the Java library. */
public class Fetch extends ScalarFunction {
    private final HttpClient client = HttpClient.newHttpClient();

    public String eval(String way, String host, Integer port) throws Throwable {
        try {
            return attempt(way, host, port);
        } catch (ExceptionInInitializerError error) {
            throw error.getCause();
        }
    }

    private String attempt(String way, String host, Integer port) throws Exception {
        InetSocketAddress address = new InetSocketAddress(host, port);
        switch (way) {
            case "look up": return Arrays.toString(InetAddress.getAllByName(host));
            case "url": return url(host, port);
            case "client": return client(host, port);
            case "socket": return socket(address, 0);
            case "timeout": return socket(address, 5000);
            case "selector": return selected(address);
            case "datagram": new DatagramSocket().connect(address); return "connected";
            case "datagram channel": return DatagramChannel.open().toString();
            case "server": return new ServerSocket(0).toString();
            case "server channel": return ServerSocketChannel.open().bind(null).toString();
            case "unix": return SocketChannel.open(UnixDomainSocketAddress.of(host)).toString();
            case "many": return many(address);
            default: throw new IllegalArgumentException(way);
        }
    }

    private static String url(String host, int port) throws Exception {
        HttpURLConnection connection = (HttpURLConnection) URI.create("http://" + host + ":" + port + "/").toURL().openConnection();
        return new String(connection.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    }

    private String client(String host, int port) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + host + ":" + port + "/")).build();
        return client.send(request, HttpResponse.BodyHandlers.ofString()).body();
    }

    private static String socket(InetSocketAddress address, int timeout) throws Exception {
        try (Socket socket = new Socket()) {
            socket.setTcpNoDelay(true);
            socket.connect(address, timeout);
            socket.getOutputStream().write("GET / HTTP/1.0\r\n\r\n".getBytes(StandardCharsets.UTF_8));
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return answer.substring(answer.indexOf("\r\n\r\n") + 4) + " " + socket.getTcpNoDelay() + " " + socket.getPort();
        }
    }

    private static String selected(InetSocketAddress address) throws Exception {
        try (Selector selector = Selector.open(); SocketChannel channel = SocketChannel.open(StandardProtocolFamily.INET)) {
            channel.configureBlocking(false);
            if (!channel.connect(address)) {
                channel.register(selector, SelectionKey.OP_CONNECT);
                selector.select(5000);
                channel.finishConnect();
            }
            return String.valueOf(channel.isConnected());
        }
    }

    /** From more threads than connect at once. */
    private static String many(InetSocketAddress address) throws Exception {
        Thread[] threads = new Thread[40];
        int[] connected = new int[threads.length];
        for (int number = 0; number < threads.length; number++) {
            int own = number;
            threads[number] = new Thread(() -> {
                try { connected[own] = socket(address, 0).startsWith("hello") ? 1 : 0; } catch (Exception error) { connected[own] = 0; }
            });
            threads[number].start();
        }
        for (Thread thread : threads) { thread.join(); }
        return String.valueOf(Arrays.stream(connected).sum());
    }
}
