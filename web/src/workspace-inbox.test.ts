import { describe, expect, it } from "vitest";
import { type InboxEntry, WorkspaceInbox } from "./workspace-inbox";

const write = (statement: string): InboxEntry => ({ kind: "write", statement });

describe("WorkspaceInbox", () => {
  it("keeps statements until the workspace reads, and passes later ones on", () => {
    const inbox = new WorkspaceInbox();
    const read: string[] = [];
    const reader = (entry: InboxEntry) => void read.push("statement" in entry ? entry.statement : entry.kind);
    inbox.put(write("a"));
    const close = inbox.open(reader);
    inbox.put(write("b"));
    close();
    inbox.put(write("c"));
    expect(read).toEqual(["a", "b"]);
    inbox.open(reader);
    inbox.put({ kind: "new worksheet" });
    expect(read).toEqual(["a", "b", "c", "new worksheet"]);
  });
});
