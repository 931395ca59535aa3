package com.example.library;

import com.fasterxml.jackson.core.Version;

/** A library of {@link com.example.Greets}, which requires another version of Jackson than the worker. */
public abstract class Greeting extends org.apache.flink.table.functions.ScalarFunction {
    protected static String greeting(String name) { return "hello " + name + " of " + Version.name(); }
}
