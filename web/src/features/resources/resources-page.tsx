import { getRouteApi } from "@tanstack/react-router";
import type { RelationView } from "../../data/relation-table";
import { RelationTabs } from "../../data/relation-tabs";
import { Page } from "../../ui/page";
import { PoolUsage } from "./pool-usage";
import { TryFunction } from "./try-function";

const route = getRouteApi("/resources");

const VIEWS: Readonly<Record<string, RelationView>> = {
  pools: {
    title: "Compute pools",
    relation: "compute_pools",
    rest: "ORDER BY name",
    about:
      "Queries run in pools, each a process of its own. CREATE COMPUTE_POOL adds one; the workspace starts and stops them.",
    columns: [
      { name: "name", title: "Pool" },
      { name: "size", title: "Size" },
      { name: "actual_state", title: "State" },
      { name: "intended_state", title: "Intended", from: "medium" },
      { name: "slots", title: "Slots", kind: "number", from: "medium" },
      { name: "slots_used", title: "In use", kind: "number", from: "wide" },
      { name: "timeout", title: "Timeout, min", kind: "number", from: "wide" },
      { name: "error_messages", title: "Error", from: "medium" },
      { name: "owner", title: "Owner", from: "medium" },
    ],
  },
  live: {
    title: "Live queries",
    relation: "live_queries",
    rest: "ORDER BY since",
    about:
      "Interactive queries that run now, while a client reads their rows: yours, and with READ_AUDIT those of all users. They end when the client leaves.",
    columns: [
      { name: "statement", title: "Statement", kind: "code" },
      { name: "user_name", title: "User" },
      { name: "role_name", title: "Role", from: "medium" },
      { name: "state", title: "State" },
      { name: "since", title: "Since", kind: "time", from: "medium" },
      { name: "rows_read", title: "Rows", kind: "number" },
    ],
  },
  registries: {
    title: "Schema registries",
    relation: "schema_registries",
    rest: "ORDER BY name",
    about: "Registries have the schemas of Avro, Protobuf and JSON records. CREATE SCHEMA_REGISTRY adds one.",
    columns: [
      { name: "name", title: "Registry" },
      { name: "type", title: "Type" },
      { name: "status", title: "Status" },
      { name: "url", title: "Address", kind: "code", from: "medium" },
      { name: "owner", title: "Owner", from: "wide" },
    ],
  },
  functions: {
    title: "Functions",
    relation: "functions",
    rest: "ORDER BY built_in, name",
    about:
      "Functions of users first, then the built-in ones. CREATE FUNCTION adds one from a function source.",
    columns: [
      { name: "name", title: "Function", kind: "code" },
      { name: "kind", title: "Kind" },
      { name: "built_in", title: "Built in", kind: "boolean", from: "medium" },
      { name: "signature", title: "Signature", kind: "code", from: "wide" },
      { name: "description", title: "Description", from: "medium" },
      { name: "in_views", title: "In snapshots", kind: "boolean", from: "wide" },
      { name: "source_name", title: "Source", from: "widest" },
    ],
  },
  sources: {
    title: "Function sources",
    relation: "function_sources",
    rest: "ORDER BY name",
    about: "Uploaded code of functions. CREATE FUNCTION_SOURCE adds one.",
    columns: [
      { name: "name", title: "Source" },
      { name: "language", title: "Language" },
      { name: "status", title: "Status" },
      { name: "size_bytes", title: "Bytes", kind: "number", from: "medium" },
      { name: "description", title: "Description", from: "medium" },
      { name: "owner", title: "Owner", from: "wide" },
    ],
  },
  descriptors: {
    title: "Descriptors",
    relation: "descriptors",
    rest: "ORDER BY name",
    about: "The messages of uploaded Protobuf descriptors. CREATE DESCRIPTOR_SOURCE adds some.",
    columns: [
      { name: "name", title: "Descriptor" },
      { name: "source_name", title: "Source" },
      { name: "message", title: "Message", kind: "code" },
      { name: "owner", title: "Owner", from: "medium" },
    ],
  },
  secrets: {
    title: "Secrets",
    relation: "secrets",
    rest: "ORDER BY name",
    about: "Values that stores use by name. CREATE SECRET adds one; its value is never shown.",
    columns: [
      { name: "name", title: "Secret" },
      { name: "type", title: "Type" },
      { name: "status", title: "Status" },
      { name: "description", title: "Description", from: "medium" },
      { name: "owner", title: "Owner", from: "medium" },
      { name: "updated_at", title: "Changed", kind: "time", from: "wide" },
    ],
  },
  savepoints: {
    title: "Savepoints",
    relation: "savepoints",
    rest: "ORDER BY created_at DESC",
    about:
      "Copies of the positions and the state of queries. CREATE SAVEPOINT takes one; another query continues from it with resume.from.savepoint.",
    columns: [
      { name: "name", title: "Savepoint" },
      { name: "query_name", title: "Query" },
      { name: "sink_fqn", title: "Writes", kind: "code", from: "medium" },
      { name: "query_version", title: "Version", kind: "number", from: "wide" },
      { name: "size_bytes", title: "Bytes", kind: "number", from: "medium" },
      { name: "created_at", title: "Taken", kind: "time" },
      { name: "expires_at", title: "Expires", kind: "time", from: "wide" },
    ],
  },
  alerts: {
    title: "Alerts",
    relation: "alerts",
    rest: "ORDER BY name",
    about: "Alerts send the findings of queries to a webhook. CREATE ALERT adds one.",
    columns: [
      { name: "name", title: "Alert" },
      { name: "host", title: "Receiver" },
      { name: "codes", title: "Findings", from: "medium" },
      { name: "firing", title: "Firing", kind: "number" },
      { name: "pending", title: "Pending", kind: "number", from: "medium" },
      { name: "error", title: "Error", from: "medium" },
      { name: "owner", title: "Owner", from: "wide" },
    ],
  },
  settings: {
    title: "Settings",
    relation: "settings",
    rest: "ORDER BY name",
    about:
      "The settings of the server, which its operator sets in the environment before a start. Secrets are never shown.",
    columns: [
      { name: "name", title: "Setting", kind: "code" },
      { name: "value", title: "Value", kind: "code" },
      { name: "is_set", title: "Set", kind: "boolean", from: "medium" },
      { name: "default_value", title: "Default", kind: "code", from: "wide" },
      { name: "description", title: "Description", from: "medium" },
    ],
  },
};

export function ResourcesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Page title="Resources">
      <RelationTabs
        label="Resources"
        views={VIEWS}
        others={{ try: { title: "Try a function", content: <TryFunction /> } }}
        below={{ pools: <PoolUsage /> }}
        search={search}
        onSearch={(next) => void navigate({ search: next, replace: true })}
      />
    </Page>
  );
}
