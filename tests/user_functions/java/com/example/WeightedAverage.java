package com.example;

import org.apache.flink.table.functions.AggregateFunction;

/** The average of values, each as often as its weight. */
public class WeightedAverage extends AggregateFunction<Double, WeightedAverage.Sums> {
    public static class Sums {
        public double total;
        public long weight;
    }

    @Override
    public Sums createAccumulator() {
        return new Sums();
    }

    @Override
    public Double getValue(Sums sums) {
        return sums.weight == 0 ? null : sums.total / sums.weight;
    }

    public void accumulate(Sums sums, Double value, Integer weight) {
        if (value != null && weight != null) {
            sums.total += value * weight;
            sums.weight += weight;
        }
    }

    public void retract(Sums sums, Double value, Integer weight) {
        sums.total -= value * weight;
        sums.weight -= weight;
    }
}
