import { describe, expect, it } from "vitest";
import { readSqlFailure } from "../../api/failures";
import type { Language, PropertyFacts } from "../../api/wire";
import { createStatement, failedAt, isOftenNeeded, type StoreDraft, storeProperties } from "./new-store";

const property = (name: string, part: Partial<PropertyFacts> = {}): PropertyFacts => ({
  ...{ name, statements: ["CREATE STORE"], documentation: "", default: "", storeType: "KAFKA" },
  ...{ isSecret: false, values: [], ...part },
});
const draft: StoreDraft = {
  name: " it's ",
  type: "KAFKA",
  values: {
    uris: "localhost:1",
    "tls.ca_cert_file": "-----BEGIN\nMII'\n-----END",
    empty: " ",
    "sasl.password": "p",
  },
};
const at = (line: number, sqlState = "3D008") =>
  failedAt(draft, readSqlFailure(sqlState, `wrong at line ${line}, column 3`));

it("offers the properties of the type, and those of every store that have an effect", () => {
  const language: Language = {
    ...{ words: [], types: [], functions: [], storeTypes: [], privileges: {} },
    properties: [
      property("type", { storeType: "", default: "needed" }),
      property("description", { storeType: "", documentation: "accepted and ignored" }),
      property("tls.disabled", { storeType: "" }),
      property("tls.disabled", { storeType: "S3" }),
      property("schema_registry.name", { storeType: "" }),
      property("uris", { default: "needed" }),
      property("topic", { statements: ["CREATE STREAM"] }),
      property("uris", { storeType: "S3", default: "needed" }),
    ],
  };
  const names = storeProperties(language, "KAFKA").map(({ name }) => name);
  expect(names).toEqual(["uris", "schema_registry.name"]);
  expect(isOftenNeeded(property("a", { default: "needed with an id" }))).toBe(true);
});

it("writes the statement without what is empty", () => {
  expect(createStatement(draft)).toBe(
    `CREATE STORE "it's" WITH (
'type' = 'KAFKA',
'uris' = 'localhost:1',
'tls.ca_cert_file' = '-----BEGIN
MII''
-----END',
'sasl.password' = 'p'
);`,
  );
});

describe("the place of an error", () => {
  it("is the property on its line, over the lines of a certificate", () => {
    expect([1, 2, 3].map((line) => at(line)?.property)).toEqual([null, "type", "uris"]);
    expect([4, 5, 6, 7, 8].map((line) => at(line)?.property)).toEqual([
      ...["tls.ca_cert_file", "tls.ca_cert_file", "tls.ca_cert_file"],
      ...["sasl.password", undefined],
    ]);
    expect(at(1)).toEqual({ step: "name", property: null });
  });

  it("is the connection, a missing property, or none of the steps", () => {
    expect(at(3, "57015")).toEqual({ step: "connection", property: null });
    const missing = readSqlFailure("3D021", "a Kafka store needs the property 'uris' at line 2, column 1");
    expect(failedAt(draft, missing)).toEqual({ step: "properties", property: "uris" });
    expect(failedAt(draft, readSqlFailure("42501", "role r lacks CREATE_STORE"))).toBeNull();
  });
});
