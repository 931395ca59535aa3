package com.fasterxml.jackson.core;

/** A class of the same name as one of Jackson's, which the worker itself uses. */
public class Version {
    public static String name() { return "its own Jackson"; }
}
