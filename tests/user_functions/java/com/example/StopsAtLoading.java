package com.example;

import org.apache.flink.table.functions.ScalarFunction;

/** A class that ends its process when it is loaded. */
public class StopsAtLoading extends ScalarFunction {
    static {
        System.exit(7);
    }

    public String eval(String text) { return text; }
}
