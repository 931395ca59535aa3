package com.example;

import com.example.library.Greeting;

/** A function whose superclass is in a JAR of libraries. */
public class Greets extends Greeting {
    public String eval(String name) { return greeting(name); }
}
