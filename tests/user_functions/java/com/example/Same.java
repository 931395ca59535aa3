package com.example;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Map;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.types.Row;

/** Its argument, as the class by which Flink passes each type by default. */
public class Same extends ScalarFunction {
    public Boolean eval(Boolean value) { return value; }
    public Byte eval(Byte value) { return value; }
    public Short eval(Short value) { return value; }
    public Integer eval(Integer value) { return value; }
    public Long eval(Long value) { return value; }
    public Float eval(Float value) { return value; }
    public Double eval(Double value) { return value; }
    public String eval(String value) { return value; }
    public byte[] eval(byte[] value) { return value; }
    public BigDecimal eval(BigDecimal value) { return value; }
    public LocalDate eval(LocalDate value) { return value; }
    public LocalDateTime eval(LocalDateTime value) { return value; }
    public Instant eval(Instant value) { return value; }
    public Integer[] eval(Integer[] value) { return value; }
    public Row[] eval(Row[] value) { return value; }
    public Map<String, Long> eval(Map<String, Long> value) { return value; }
    public Row eval(Row value) { return value; }
}
