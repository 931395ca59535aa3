import { describe, expect, it } from "vitest";
import { splitStatements, statementAt } from "./split";

const texts = (text: string) => splitStatements(text).map((statement) => statement.text);

describe("splitStatements", () => {
  it("splits at semicolons and keeps them", () => {
    expect(texts("LIST STORES; LIST QUERIES;")).toEqual(["LIST STORES;", "LIST QUERIES;"]);
  });

  it("takes a last statement without a semicolon", () => {
    expect(texts("USE DATABASE d;\n\nSELECT 1\n  ")).toEqual(["USE DATABASE d;", "SELECT 1"]);
  });

  it("leaves semicolons in strings, identifiers and comments alone", () => {
    const text = `SELECT ';', "a;b", \`c;d\` -- no; end\n/* nor; here */ FROM t;`;
    expect(texts(text)).toEqual([text]);
  });

  it("reads doubled quotes as part of the literal", () => {
    expect(texts("SELECT 'it''s; one'; SELECT \"a\"\";\";")).toEqual([
      "SELECT 'it''s; one';",
      'SELECT "a"";";',
    ]);
  });

  it("takes the text between dollar signs as one, closed or not", () => {
    expect(texts("SELECT $$ ';'; $$; SELECT 2; SELECT $$ 3; 4")).toEqual([
      "SELECT $$ ';'; $$;",
      "SELECT 2;",
      "SELECT $$ 3; 4",
    ]);
  });

  it("takes backslashes literally", () => {
    expect(texts("SELECT '\\'; SELECT 2;")).toEqual(["SELECT '\\';", "SELECT 2;"]);
  });

  it("finds no statement in comments and stray semicolons", () => {
    expect(texts("-- nothing\n; ;/* at all */;")).toEqual([]);
    expect(texts("")).toEqual([]);
  });

  it("leaves comments before and after a statement outside it", () => {
    const [statement] = splitStatements("-- about it\nSELECT 1; -- done");
    expect(statement).toEqual({ from: 12, to: 21, text: "SELECT 1;" });
  });

  it("keeps an application together", () => {
    const application =
      "BEGIN APPLICATION a\n INSERT INTO x SELECT 1;\n INSERT INTO y SELECT 2;\nEND APPLICATION;";
    expect(texts(`${application} LIST QUERIES;`)).toEqual([application, "LIST QUERIES;"]);
  });

  it("takes an unclosed quote to the end instead of splitting inside it", () => {
    expect(texts("SELECT 'open; LIST STORES;")).toEqual(["SELECT 'open; LIST STORES;"]);
    expect(texts("SELECT 1 /* open; LIST STORES;")).toEqual(["SELECT 1 /* open; LIST STORES;"]);
  });
});

describe("statementAt", () => {
  const text = "-- first\nSELECT 1;\n\n-- second\nSELECT 2;  \n";

  it("is the statement around the cursor, its semicolon included", () => {
    expect(statementAt(text, text.indexOf("1"))?.text).toBe("SELECT 1;");
    expect(statementAt(text, text.indexOf("1;") + 2)?.text).toBe("SELECT 1;");
  });

  it("is the one just ended when the cursor stands behind it on its line", () => {
    expect(statementAt(text, text.indexOf("2;") + 4)?.text).toBe("SELECT 2;");
    expect(statementAt("SELECT 1;   \nSELECT 2;", 11)?.text).toBe("SELECT 1;");
  });

  it("is the next one when the cursor stands in the comment above it", () => {
    expect(statementAt(text, 2)?.text).toBe("SELECT 1;");
    expect(statementAt(text, text.indexOf("second"))?.text).toBe("SELECT 2;");
  });

  it("is the last one below all statements, and none in an empty text", () => {
    expect(statementAt(text, text.length)?.text).toBe("SELECT 2;");
    expect(statementAt("  -- only words\n", 3)).toBeNull();
  });
});
