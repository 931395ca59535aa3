import { describe, expect, it } from "vitest";
import { codePointsOf, spanAt, spanOf, unitsOf } from "./position";

const marked = (statement: string, line: number, column: number) => {
  const { from, to } = spanAt(statement, { line, column });
  return statement.slice(from, to);
};

describe("spanOf", () => {
  it("counts code points, as the server does", () => {
    const text = "SELECT '🦆🦆', wrong";
    const { from, to } = spanOf(text, 13, 18);
    expect(text.slice(from, to)).toBe("wrong");
    expect(spanOf("SELECT a", 7, 8)).toEqual({ from: 7, to: 8 });
  });

  it("marks something at the end of a text, and never more than there is", () => {
    expect(spanOf("SELECT", 6, 6)).toEqual({ from: 5, to: 6 });
    expect(spanOf("SELECT", 4, 40)).toEqual({ from: 4, to: 6 });
  });
});

describe("offsets", () => {
  it("are converted between code points and units", () => {
    const text = "🦆 a";
    expect([unitsOf(text, 1), unitsOf(text, 9), codePointsOf(text, 4)]).toEqual([2, 4, 3]);
    expect([unitsOf("abc", 2), unitsOf("abc", 9), codePointsOf("abc", 2)]).toEqual([2, 3, 2]);
  });
});

describe("spanAt", () => {
  const statement = 'SELECT viewtime,\n  wrong, "Odd name"\nFROM pageviews;';

  it("marks the name at a position", () => {
    expect(marked(statement, 1, 1)).toBe("SELECT");
    expect(marked(statement, 2, 3)).toBe("wrong");
    expect(marked(statement, 3, 6)).toBe("pageviews");
  });

  it("marks quoted names whole and other characters singly", () => {
    expect(marked(statement, 2, 10)).toBe('"Odd name"');
    expect(marked(statement, 3, 15)).toBe(";");
  });

  it("counts code points, as the server does", () => {
    expect(marked("SELECT '🦆🦆', wrong;", 1, 14)).toBe("wrong");
  });

  it("marks the last character when the position is beyond the text", () => {
    expect(marked("SELECT (1", 1, 10)).toBe("1");
    expect(marked("SELECT (1", 7, 80)).toBe("1");
    expect(marked("SELECT 1\n\nFROM", 9, 1)).toBe("FROM");
  });

  it("stays inside the statement for every position", () => {
    for (let line = 1; line < 6; line++) {
      for (let column = 1; column < 30; column++) {
        const { from, to } = spanAt(statement, { line, column });
        expect(from).toBeGreaterThanOrEqual(0);
        expect(to).toBeGreaterThan(from);
        expect(to).toBeLessThanOrEqual(statement.length);
      }
    }
  });
});
