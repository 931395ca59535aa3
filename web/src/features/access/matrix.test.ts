import { describe, expect, it } from "vitest";
import {
  GRANTS,
  grantRefusal,
  grantStatement,
  matrixOf,
  objectsOf,
  revokeStatement,
  roleGraphOf,
} from "./matrix";

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
    ["organizations", "org"],
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

  it("has the organization also for a role that sees no grant on it", () => {
    const alone = { grants: [], roles: [], organizations: facts.organizations };
    expect(objectsOf(alone, KINDS)).toEqual([
      { title: "organization org", target: "ORGANIZATION", kind: "ORGANIZATION" },
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

  it("refuses what the active role may not grant, with the reason", () => {
    const stream = objectsOf(facts, KINDS).find(({ kind }) => kind === "RELATION");
    if (stream === undefined) throw new Error("the stream is missing");
    const rows = matrixOf(facts, stream, ["SELECT", "INSERT"]);
    const lacking = { notOwner: "not the owner.", notManager: "no MANAGE_GRANTS" };
    const refusal = (place: number, role: string, reasons: Parameters<typeof grantRefusal>[3] = lacking) =>
      grantRefusal(rows, place, new Set([role]), reasons);
    const refused = "not the owner. MANAGE_GRANTS or the grant option allow it too.";
    // The grant option is of SELECT, and of the role readers, alone.
    expect([refusal(0, "readers"), refusal(1, "readers"), refusal(0, "analysts")]).toEqual([
      null,
      refused,
      refused,
    ]);
    expect(refusal(1, "analysts", { ...lacking, notOwner: null })).toBeNull();
    expect(refusal(1, "analysts", { ...lacking, notManager: null })).toBeNull();
    // The organization has no owner: its refusal speaks of MANAGE_GRANTS alone.
    expect(refusal(1, "analysts", { ...lacking, notOwner: undefined })).toBe("no MANAGE_GRANTS");
  });

  it("draws the roles with an edge to each role that has them", () => {
    const { nodes, edges } = roleGraphOf(facts);
    expect(edges).toEqual([
      { from: "readers", to: "analysts" },
      { from: "analysts", to: "managers" },
      { from: "owners", to: "admins" },
    ]);
    expect(nodes.find(({ role }) => role === "readers")).toEqual({
      role: "readers",
      privileges: 1,
      users: 1,
    });
    expect(nodes.find(({ role }) => role === "sysadmin")).toMatchObject({ privileges: 2, users: 0 });
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
