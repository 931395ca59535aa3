package com.example;

import org.apache.flink.table.functions.ScalarFunction;

/** The first characters of a text, three without a number; its overloads differ by their arguments. */
public class Shorten extends ScalarFunction {
    public String eval(String text, Integer length) {
        return text == null ? null : text.substring(0, Math.min(length, text.length()));
    }

    public String eval(String text) {
        return eval(text, 3);
    }

    /** Fails for a negative number. */
    public Long eval(Long number) {
        if (number != null && number < 0) {
            throw new IllegalArgumentException(number + " is negative");
        }
        return number;
    }
}
