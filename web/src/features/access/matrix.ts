/** The privileges of roles on one object: granted directly, inherited from a role, or had as its owner. */

import { combined, system } from "../../data/select";
import { quoteIdentifier } from "../../sql/identifiers";

export const GRANTS = combined(
  {
    grants: {
      columns: {
        privilege: "privilege",
        kind: "kind",
        name: "name",
        granteeKind: "grantee_kind",
        grantee: "grantee",
        option: "grant_option",
        grantor: "granted_by",
      },
      from: `FROM ${system("grants")}`,
    },
    roles: { columns: { name: "name" }, from: `FROM ${system("roles")}` },
    // Most privileges to create are granted on it, and a role may see no grant on it yet.
    organizations: { columns: { name: "name" }, from: `FROM ${system("organizations")}` },
  },
  ["grants", "roles"],
);

type GrantFacts = ReturnType<typeof GRANTS.read>;

export interface GrantedObject {
  /** Kind and name, as the page shows and addresses the object. */
  readonly title: string;
  /** The object in GRANT, and the word of its kind in the server's list of privileges. */
  readonly target: string;
  readonly kind: string;
}

export interface MatrixCell {
  /** Direct grants and inherited ones may both be there. */
  readonly isDirect: boolean;
  readonly hasOption: boolean;
  /** True if every direct grant is built in, and cannot be revoked. */
  readonly isBuiltIn: boolean;
  /** The role that it is inherited from, or the owner; null if neither. */
  readonly via: string | null;
}

const ORGANIZATION = "ORGANIZATION";

/** The organization, and the objects that the active role sees, without roles, which are granted by GRANT ROLE. */
export function objectsOf(
  { grants, organizations }: GrantFacts,
  kinds: Readonly<Record<string, unknown>>,
): GrantedObject[] {
  const objects = new Map<string, GrantedObject>();
  for (const { name } of organizations) {
    const title = `organization ${name}`;
    objects.set(title, { title, target: ORGANIZATION, kind: ORGANIZATION });
  }
  for (const { kind, name } of grants) {
    const title = `${kind} ${name}`;
    if (kind === null || name === null || kind === "role" || objects.has(title)) continue;
    const word = kind.toUpperCase().replaceAll(" ", "_");
    // A relation is listed by its own kind, such as a stream.
    const known = word in kinds ? word : "RELATION";
    const target = known === ORGANIZATION ? ORGANIZATION : `${known} ${name}`;
    objects.set(title, { title, target, kind: known });
  }
  return [...objects.values()].sort((one, other) => one.title.localeCompare(other.title));
}

/** The roles by name, each with a cell for each privilege. */
export function matrixOf(
  { grants, roles }: GrantFacts,
  object: GrantedObject,
  privileges: readonly string[],
): readonly { readonly role: string; readonly cells: readonly MatrixCell[] }[] {
  const own = grants.filter(
    (grant) => grant.granteeKind === "role" && `${grant.kind} ${grant.name}` === object.title,
  );
  const owner = own.find((grant) => grant.privilege === "OWNERSHIP")?.grantee ?? null;
  return roles
    .map((row) => row.name ?? "")
    .sort((one, other) => one.localeCompare(other))
    .map((role) => {
      const inherited = inheritedRoles(grants, role);
      const cells = privileges.map((privilege): MatrixCell => {
        const all = own.filter((grant) => grant.privilege === privilege);
        const direct = all.filter((grant) => grant.grantee === role);
        const through = all.find((grant) => inherited.has(grant.grantee ?? ""))?.grantee ?? null;
        const isOwner = owner !== null && (owner === role || inherited.has(owner));
        return {
          isDirect: direct.length > 0,
          hasOption: direct.some((grant) => grant.option === "true"),
          isBuiltIn: direct.length > 0 && direct.every((grant) => grant.grantor === null),
          via: isOwner ? `the owner ${owner}` : through,
        };
      });
      return { role, cells };
    });
}

/** The roles that a role has, directly or through others. */
export function inheritedRoles(grants: GrantFacts["grants"], role: string): ReadonlySet<string> {
  const inherited = new Set<string>();
  const waiting = [role];
  for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
    for (const grant of grants) {
      const isMembership =
        grant.kind === "role" && grant.privilege === "USAGE" && grant.granteeKind === "role";
      if (!isMembership || grant.grantee !== each || grant.name === null || inherited.has(grant.name))
        continue;
      inherited.add(grant.name);
      waiting.push(grant.name);
    }
  }
  inherited.delete(role);
  return inherited;
}

interface Lacking {
  /** Reason why the active role is not the owner; null if it is, undefined if the object has none. */
  readonly notOwner: string | null | undefined;
  /** Reason why it lacks MANAGE_GRANTS; null if it does not. */
  readonly notManager: string | null;
}

/** Null if the active role owns the object, has MANAGE_GRANTS, or has the grant option of the privilege; else the reason. */
export function grantRefusal(
  rows: ReturnType<typeof matrixOf>,
  place: number,
  mine: ReadonlySet<string>,
  { notOwner, notManager }: Lacking,
): string | null {
  if (notManager === null || notOwner === null) return null;
  if (rows.some(({ role, cells }) => mine.has(role) && cells[place]?.hasOption === true)) return null;
  return notOwner === undefined ? notManager : `${notOwner} MANAGE_GRANTS or the grant option allow it too.`;
}

export interface RoleNode {
  readonly role: string;
  /** Numbers of the grants to the role itself, and of the users that have it directly. */
  readonly privileges: number;
  readonly users: number;
}

/** The roles, and an edge from each to the roles that it is granted to. */
export function roleGraphOf({ grants, roles }: GrantFacts): {
  readonly nodes: readonly RoleNode[];
  readonly edges: readonly { readonly from: string; readonly to: string }[];
} {
  const isMembership = (grant: GrantFacts["grants"][number]) =>
    grant.kind === "role" && grant.privilege === "USAGE";
  const nodes = roles.map(({ name }) => {
    const role = name ?? "";
    const own = grants.filter((grant) => grant.granteeKind === "role" && grant.grantee === role);
    const members = grants.filter((grant) => isMembership(grant) && grant.name === role);
    return {
      role,
      privileges: own.filter((grant) => !isMembership(grant)).length,
      users: members.filter((grant) => grant.granteeKind === "user").length,
    };
  });
  const known = new Set(nodes.map(({ role }) => role));
  const edges = grants
    .filter((grant) => isMembership(grant) && grant.granteeKind === "role")
    .map((grant) => ({ from: grant.name ?? "", to: grant.grantee ?? "" }))
    .filter(({ from, to }) => known.has(from) && known.has(to));
  return { nodes, edges };
}

export function grantStatement(privilege: string, target: string, role: string, withOption: boolean): string {
  const option = withOption ? " WITH GRANT OPTION" : "";
  return `GRANT ${privilege} ON ${target} TO ROLE ${quoteIdentifier(role)}${option};`;
}

export function revokeStatement(privilege: string, target: string, role: string, cascades: boolean): string {
  return `REVOKE ${privilege} ON ${target} FROM ROLE ${quoteIdentifier(role)}${cascades ? " CASCADE" : ""};`;
}
