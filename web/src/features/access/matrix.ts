/** The privileges of roles on one object: granted directly, inherited from a role, or had as its owner. */

import { combined, system } from "../../data/select";
import { quoteIdentifier } from "../../sql/identifiers";

export const GRANTS = combined({
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
});

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

/** The objects that the active role sees, without roles, which are granted by GRANT ROLE. */
export function objectsOf({ grants }: GrantFacts, kinds: Readonly<Record<string, unknown>>): GrantedObject[] {
  const objects = new Map<string, GrantedObject>();
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

export function grantStatement(privilege: string, target: string, role: string, withOption: boolean): string {
  const option = withOption ? " WITH GRANT OPTION" : "";
  return `GRANT ${privilege} ON ${target} TO ROLE ${quoteIdentifier(role)}${option};`;
}

export function revokeStatement(privilege: string, target: string, role: string, cascades: boolean): string {
  return `REVOKE ${privilege} ON ${target} FROM ROLE ${quoteIdentifier(role)}${cascades ? " CASCADE" : ""};`;
}
