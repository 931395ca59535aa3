import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { RelationView } from "../../data/relation-table";
import { RelationTabs } from "../../data/relation-tabs";
import { Page, Skeletons } from "../../ui/page";
import { GrantsMatrix } from "./grants-matrix";
import { MayRole } from "./may-role";

// The graph is a large library.
const RoleGraph = lazy(() => import("./role-graph").then((module) => ({ default: module.RoleGraph })));
const route = getRouteApi("/access");

const VIEWS: Readonly<Record<string, RelationView>> = {
  roles: {
    title: "Roles",
    relation: "roles",
    rest: "ORDER BY name",
    about:
      "A role has privileges on objects, and may have other roles. CREATE ROLE adds one; its grants are in the next tab.",
    columns: [
      { name: "name", title: "Role" },
      { name: "is_current", title: "In use", kind: "boolean" },
      { name: "is_available", title: "You may use it", kind: "boolean" },
      { name: "owner", title: "Owner", from: "medium" },
      { name: "created_at", title: "Created", kind: "time", from: "medium" },
    ],
  },
  grants: {
    title: "Grants",
    relation: "grants",
    about:
      "The privileges on the objects that your role may see. USAGE of a role is the right to use it; a role has the privileges of its roles too.",
    columns: [
      { name: "privilege", title: "Privilege", kind: "keyword" },
      { name: "kind", title: "Kind", from: "medium" },
      { name: "name", title: "Object" },
      { name: "grantee_kind", title: "To a", from: "medium" },
      { name: "grantee", title: "Granted to" },
      { name: "grant_option", title: "May grant it", kind: "boolean", from: "wide" },
      { name: "granted_by", title: "Granted by", from: "wide" },
    ],
  },
  users: {
    title: "Users",
    relation: "users",
    rest: "ORDER BY name",
    about: "Your user, and with MANAGE_MEMBERS all users. INVITE USER invites somebody.",
    columns: [
      { name: "name", title: "User" },
      { name: "roles", title: "Roles" },
      { name: "default_role", title: "Default role", from: "medium" },
      { name: "has_password", title: "Has a password", kind: "boolean", from: "medium" },
      { name: "created_at", title: "Created", kind: "time", from: "wide" },
    ],
  },
  invitations: {
    title: "Invitations",
    relation: "invitations",
    rest: "ORDER BY created_at DESC",
    about:
      "The invitations that can still be accepted, for users with MANAGE_MEMBERS. INVITE USER adds one; REVOKE INVITATION ends it.",
    columns: [
      { name: "user_name", title: "User" },
      { name: "roles", title: "Roles" },
      { name: "invited_by", title: "Invited by", from: "medium" },
      { name: "expires_at", title: "Expires", kind: "time" },
      { name: "id", title: "Invitation", kind: "code", from: "wide" },
    ],
  },
  tokens: {
    title: "API tokens",
    relation: "api_tokens",
    about: "Programs sign in with tokens. CREATE API_TOKEN shows the secret once; the page never has it.",
    columns: [
      { name: "name", title: "Token" },
      { name: "user_name", title: "User" },
      { name: "role_name", title: "Role", from: "medium" },
      { name: "expired", title: "Expired", kind: "boolean" },
      { name: "expires_at", title: "Expires", kind: "time", from: "medium" },
      { name: "created_at", title: "Created", kind: "time", from: "wide" },
    ],
  },
  audit: {
    title: "Audit log",
    relation: "audit",
    rest: "ORDER BY id DESC LIMIT 500",
    about:
      "The newest 500 allowed and refused actions. It needs READ_AUDIT; statements are kept without their secrets.",
    columns: [
      { name: "time", title: "Time", kind: "time" },
      { name: "event", title: "Event", from: "medium" },
      { name: "outcome", title: "Outcome" },
      { name: "user_name", title: "User" },
      { name: "role_name", title: "Role", from: "wide" },
      { name: "door", title: "By", from: "wide" },
      { name: "statement", title: "Statement", kind: "code", from: "medium" },
      { name: "sqlstate", title: "SQLSTATE", from: "widest" },
      { name: "times", title: "Times", kind: "number", from: "widest" },
    ],
  },
};

export function AccessPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Page title="Access">
      <RelationTabs
        label="Access"
        views={VIEWS}
        others={{
          graph: {
            title: "Role graph",
            content: (
              <Suspense fallback={<Skeletons />}>
                <RoleGraph />
              </Suspense>
            ),
          },
          may: { title: "May a role…", content: <MayRole /> },
          matrix: {
            title: "Matrix",
            content: (
              <GrantsMatrix
                object={search.object ?? ""}
                onObject={(object) =>
                  void navigate({
                    search: { tab: "matrix", ...(object === "" ? {} : { object }) },
                    replace: true,
                  })
                }
              />
            ),
          },
        }}
        search={search}
        onSearch={(next) => void navigate({ search: next, replace: true })}
      />
    </Page>
  );
}
