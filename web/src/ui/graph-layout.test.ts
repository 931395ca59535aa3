import { describe, expect, it } from "vitest";
import { layout, reachable } from "./graph-layout";

const edges = [
  { from: "a", to: "b" },
  { from: "b", to: "c" },
  { from: "x", to: "c" },
  { from: "c", to: "b" },
];

describe("layout", () => {
  it("puts what follows to the right, or below", () => {
    const size = { width: 100, height: 40 };
    const right = layout(["a", "b"], edges, size, "LR");
    expect((right.get("b")?.x ?? 0) - (right.get("a")?.x ?? 0)).toBeGreaterThan(100);
    const below = layout(["a", "b"], edges, size, "TB");
    expect((below.get("b")?.y ?? 0) - (below.get("a")?.y ?? 0)).toBeGreaterThan(40);
  });
});

describe("reachable", () => {
  it("follows edges up, down or both ways, and ends in cycles", () => {
    expect([...reachable(edges, "b", "down")].sort()).toEqual(["b", "c"]);
    expect([...reachable(edges, "b", "up")].sort()).toEqual(["a", "b", "c", "x"]);
    expect([...reachable(edges, "a", "both")].sort()).toEqual(["a", "b", "c"]);
    expect([...reachable([], "b", "both")]).toEqual(["b"]);
  });
});
