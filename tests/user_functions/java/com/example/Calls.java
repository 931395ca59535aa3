package com.example;

import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.table.functions.ScalarFunction;

/** How often it was called with a number in its process. */
public class Calls extends ScalarFunction {
    private static final ConcurrentHashMap<Long, Integer> COUNTS = new ConcurrentHashMap<>();

    public Integer eval(Long number) {
        return COUNTS.merge(number, 1, Integer::sum);
    }
}
