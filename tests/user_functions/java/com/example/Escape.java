package com.example;

import java.io.File;
import java.net.InetSocketAddress;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.table.functions.ScalarFunction;

/** Tries what a function must not be able to do; returns what it got. */
public class Escape extends ScalarFunction {
    public String eval(String action, String target) throws Throwable {
        try {
            return attempt(action, target);
        } catch (ExceptionInInitializerError error) {
            throw error.getCause();
        }
    }

    private String attempt(String action, String target) throws Exception {
        switch (action) {
            case "read": return Files.readString(Path.of(target));
            case "list": return String.join(" ", new File(target).list());
            case "write": return Files.writeString(Path.of(target), "x").toString();
            case "delete": Files.delete(Path.of(target)); return "deleted";
            case "connect": return SocketChannel.open(new InetSocketAddress("127.0.0.1", Integer.parseInt(target))).toString();
            case "datagram": return DatagramChannel.open().toString();
            case "run": return new ProcessBuilder(target).start().info().toString();
            case "environment": return System.getenv().toString();
            case "signal": return String.valueOf(ProcessHandle.of(Long.parseLong(target)).map(ProcessHandle::destroyForcibly).orElse(false));
            case "memory": return fill();
            case "threads": return threads();
            case "recursion": return recurse(target);
            case "print": return print();
            case "hang": while (true) { Thread.sleep(1000); }
            case "exit": System.exit(5); return "";
            case "answer": return forge();
            default: throw new IllegalArgumentException(action);
        }
    }

    private static String recurse(String text) { return recurse(text) + text; }

    private static String fill() {
        List<byte[]> parts = new ArrayList<>();
        while (true) { parts.add(new byte[1 << 24]); }
    }

    private static String threads() throws InterruptedException {
        Thread thread = new Thread(() -> { });
        thread.start();
        thread.join();
        return "joined";
    }

    private static String print() {
        String line = "x".repeat(1 << 20);
        for (int number = 0; number < 1024; number++) { System.out.println(line); }
        return "printed";
    }

    /** Writes onto the worker's own output. */
    private static String forge() throws Exception {
        try (java.io.FileOutputStream output = new java.io.FileOutputStream(java.io.FileDescriptor.out)) {
            output.write(new byte[] {'O', 0x7f, 0x7f, 0x7f, 0x7f, 1, 2, 3});
        }
        return "forged";
    }
}
