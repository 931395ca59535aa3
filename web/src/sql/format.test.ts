import { describe, expect, it } from "vitest";
import { layoutChanges } from "./format";

function laidOut(text: string): string {
  let result = text;
  for (const { from, to, insert } of [...layoutChanges(text)].reverse())
    result = result.slice(0, from) + insert + result.slice(to);
  return result;
}

const EXAMPLES = [
  "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'a:9092', 'kafka.sasl.password' = 'a''b  c');",
  "CREATE FUNCTION f(a BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$\ndef f(a):\n    return  a\n$$;",
  "WITH a AS (SELECT 1 AS x) SELECT * EXCEPT (y), address->city, t.m['k'] FROM a -- end\n UNION ALL SELECT 2;",
  "SELECT * FROM o MATCH_RECOGNIZE (PARTITION BY item ORDER BY at PATTERN (a b+ {- c* -}) DEFINE b AS b.p > a.p);",
  "BEGIN APPLICATION app; CREATE STREAM s AS SELECT 1; INSERT INTO s SELECT a FROM t; END APPLICATION;",
  "/* why */ select case when a >= 1 and b <> 'x' then a%2 else -a end, interval '5' minute from t /* open",
];

describe("the layout of statements", () => {
  it("has a line for each clause, and keeps properties, types and calls together", () => {
    expect(
      laidOut(
        "create changelog c with ('topic' = 'c') as select item, COUNT(*) AS n, m['a'] from TUMBLE(orders, SIZE 1 MINUTE) WITH ('x' = 'y') " +
          "join users u WITHIN 5 MINUTES on u.id = a.id where price > 1 and item <> 'a;  b' group by item; -- kept",
      ),
    ).toMatchInlineSnapshot(`
      "create changelog c with ('topic' = 'c') as
      select
        item,
        COUNT(*) AS n,
        m['a']
      from
        TUMBLE(orders, SIZE 1 MINUTE) WITH ('x' = 'y')
        join users u WITHIN 5 MINUTES on u.id = a.id
      where
        price > 1
        and item <> 'a;  b'
      group by
        item; -- kept"
    `);
    expect(
      laidOut("CREATE STREAM s (a BIGINT, b STRUCT<c VARCHAR, d ARRAY<INTEGER>>) WITH ('topic' = 't');"),
    ).toMatchInlineSnapshot(
      `"CREATE STREAM s (a BIGINT, b STRUCT<c VARCHAR, d ARRAY<INTEGER>>) WITH ('topic' = 't');"`,
    );
  });

  it("leaves alone what it cannot read, and all that is not white space", () => {
    expect(laidOut("select 'open")).toBe("select 'open");
    expect(laidOut("-- nothing\n")).toBe("-- nothing\n");
    for (const example of EXAMPLES)
      expect(laidOut(example).replace(/\s+/g, "")).toBe(example.replace(/\s+/g, ""));
  });
});
