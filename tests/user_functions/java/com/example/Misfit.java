package com.example;

import org.apache.flink.table.functions.ScalarFunction;

/** A function that returns what it does not declare, and takes a primitive, any object, or any number of arguments; one is static. */
public class Misfit extends ScalarFunction {
    public Object eval(String kind) {
        switch (kind) {
            case "number": return 1L << 40;
            case "text": return "text";
            case "nothing": return null;
            case "list": return new String[] {"a", "b"};
            case "mixed": return new Object[] {"c", "d", 5L};
            default: throw new UnsupportedOperationException(kind);
        }
    }

    public long eval(long primitive) { return primitive; }

    public static double eval(double left, int right) { return left / right; }

    public String eval(String... parts) { return String.join("+", parts); }

    @Override
    public boolean isDeterministic() { return false; }
}
