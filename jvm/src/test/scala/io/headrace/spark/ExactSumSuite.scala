package io.headrace.spark

import java.math.BigDecimal
import java.nio.ByteBuffer

import scala.util.Random

class ExactSumSuite extends PatientSuite {
  private def sumOf(values: Double*): ExactSum = {
    val sum = new ExactSum
    values.foreach(sum.add(_, 1))
    sum
  }

  private def stored(sum: ExactSum): ExactSum = {
    val bytes = ByteBuffer.allocate(sum.size)
    sum.write(bytes)
    assertEquals(bytes.remaining, 0)
    val read = new ExactSum
    read.read(bytes.flip())
    read
  }

  private def anyDouble(random: Random): Double = random.nextInt(4) match {
    case 0 => random.nextInt(1000)
    case 1 => random.nextGaussian() * math.pow(10, random.nextInt(40) - 20)
    case 2 => Double.MinPositiveValue * random.nextInt(100)
    case _ => java.lang.Double.longBitsToDouble(random.nextLong()) match {
        case value if value.isNaN || value.isInfinite => 1.5
        case value                                    => value / 1e6
      }
  }

  test("the sum is that of the decimals, rounded once, whatever the order and the cuts") {
    val random = new Random(7)
    for (_ <- 1 to 200) {
      val values = Seq.fill(random.nextInt(20) + 1)(anyDouble(random))
      val expected = values.map(new BigDecimal(_)).reduce(_ add _).doubleValue
      val (first, second) = random.shuffle(values).splitAt(values.size / 2)
      val sum = stored(sumOf(first: _*))
      second.foreach(sum.add(_, 1))
      assertEquals(sum.toDouble, expected)
    }
  }

  test("what is taken away leaves nothing behind, infinities and NaN included") {
    val sum = sumOf(1e300, 1, Double.NaN, Double.PositiveInfinity, Double.NegativeInfinity)
    assert(stored(sum).toDouble.isNaN)
    sum.add(Double.NaN, -1)
    assert(sum.toDouble.isNaN)
    sum.add(Double.NegativeInfinity, -1)
    assertEquals(stored(sum).toDouble, Double.PositiveInfinity)
    sum.add(Double.PositiveInfinity, -1)
    sum.add(1e300, -1)
    assertEquals(stored(sum).toDouble, 1.0)
    sum.add(1, -1)
    assert(stored(sum).isBlank)
  }

  test("a variance far from zero keeps its digits, also after what was much larger is gone") {
    val (sum, squares) = (new ExactSum, new ExactSum)
    def add(value: Double, weight: Long): Unit = {
      sum.add(value, weight)
      squares.addSquare(value, weight)
    }
    Seq(1e9 + 4, 1e9 + 7, 1e150, 1e9 + 13, 1e9 + 16).foreach(add(_, 1))
    add(1e150, -1)
    assertEquals(ExactSum.variance(4, sum, squares, 12.0), 30.0)
  }
}
