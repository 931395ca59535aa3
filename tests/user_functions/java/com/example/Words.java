package com.example;

import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.types.Row;

/** The words of a text with their lengths. */
public class Words extends TableFunction<Row> {
    public void eval(String text) {
        if (text != null) {
            for (String word : text.split(" ")) {
                collect(Row.of(word, word.length()));
            }
        }
    }
}
