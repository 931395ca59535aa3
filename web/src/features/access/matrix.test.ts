import { describe, expect, it } from "vitest";
import { GRANTS, grantStatement, matrixOf, objectsOf, revokeStatement } from "./matrix";

const KINDS = { ORGANIZATION: [], DATABASE: [], COMPUTE_POOL: [] };
const grant = (...cells: readonly (string | null)[]) => ["grants", ...cells];
const facts = GRANTS.read({
  ...{ kind: "result", columns: [], isTruncated: false, message: "", context: null },
  rows: [
    grant("OWNERSHIP", "stream", 'shop.public."Best"', "role", "owners", "true", null),
    grant("SELECT", "stream", 'shop.public."Best"', "role", "readers", "true", "owners"),
    grant("CREATE_STORE", "organization", "org", "role", "sysadmin", "false", null),
    grant("OWNERSHIP", "compute pool", "p", "role", "sysadmin", "true", null),
    grant("USAGE", "role", "readers", "role", "analysts", "false", "x"),
    grant("USAGE", "role", "analysts", "role", "managers", "false", "x"),
    grant("USAGE", "role", "owners", "role", "admins", "false", "x"),
    grant("USAGE", "role", "readers", "user", "managers", "false", "x"),
    ...["analysts", "managers", "readers", "owners", "admins", "sysadmin"].map((name) => ["roles", name]),
  ],
});

describe("the matrix of grants", () => {
  it("has the objects that can be granted on, as GRANT names them", () => {
    expect(objectsOf(facts, KINDS)).toEqual([
      { title: "compute pool p", target: "COMPUTE_POOL p", kind: "COMPUTE_POOL" },
      { title: "organization org", target: "ORGANIZATION", kind: "ORGANIZATION" },
      { title: 'stream shop.public."Best"', target: 'RELATION shop.public."Best"', kind: "RELATION" },
    ]);
  });

  it("distinguishes what a role was granted from what it inherits, over several roles", () => {
    const [, organization, stream] = objectsOf(facts, KINDS);
    if (organization === undefined || stream === undefined) throw new Error("an object is missing");
    const rows = matrixOf(facts, stream, ["SELECT", "INSERT"]);
    const cells = Object.fromEntries(rows.map(({ role, cells: [select] }) => [role, select]));
    expect(rows.map((row) => row.role)).toEqual([...rows.map((row) => row.role)].sort());
    expect(cells.readers).toEqual({ isDirect: true, hasOption: true, isBuiltIn: false, via: null });
    expect(cells.managers).toEqual({ isDirect: false, hasOption: false, isBuiltIn: false, via: "readers" });
    expect([cells.owners?.via, cells.admins?.via]).toEqual(["the owner owners", "the owner owners"]);
    expect(cells.sysadmin?.via).toBeNull();
    const admin = matrixOf(facts, organization, ["CREATE_STORE"]).find((row) => row.role === "sysadmin");
    expect(admin?.cells[0]).toMatchObject({ isDirect: true, isBuiltIn: true });
  });

  it("writes the statements", () => {
    expect(grantStatement("SELECT", "RELATION a.b.c", "It's", true)).toBe(
      `GRANT SELECT ON RELATION a.b.c TO ROLE "It's" WITH GRANT OPTION;`,
    );
    expect(revokeStatement("SELECT", "RELATION a.b.c", "r", true)).toBe(
      `REVOKE SELECT ON RELATION a.b.c FROM ROLE "r" CASCADE;`,
    );
  });
});
