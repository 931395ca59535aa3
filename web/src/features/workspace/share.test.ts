import { describe, expect, it } from "vitest";
import { linkOf, sharedWorksheet } from "./share";

const ORIGIN = "https://headrace.example";
const sheet = {
  name: "Größen <b>",
  text: "SELECT 'ü', '😀';\n-- + / =",
  context: { role: "sysadmin", database: "shop", computePool: "big" },
};

function fragment(link: string | null): string {
  return new URL(link ?? "").hash;
}

describe("a worksheet in a link", () => {
  it("is the same at the other end, without the role", () => {
    const link = linkOf(ORIGIN, sheet);
    expect(link).toMatch(/^https:\/\/headrace\.example\/sql#worksheet=[A-Za-z0-9_-]+$/);
    expect(sharedWorksheet(fragment(link))).toEqual({
      ...sheet,
      context: { database: "shop", computePool: "big" },
    });
  });

  it("is none if it is too long, or cannot be read", () => {
    expect(linkOf(ORIGIN, { ...sheet, text: "x".repeat(30_000) })).toBeNull();
    const unreadable = [
      "",
      "#worksheet=",
      "#worksheet=%%%",
      `#worksheet=${btoa("[1]")}`,
      `#worksheet=${btoa('{"text": 1}')}`,
    ];
    expect(unreadable.map(sharedWorksheet)).toEqual([null, null, null, null, null]);
  });

  it("takes names only as texts", () => {
    const hash = `#worksheet=${btoa(JSON.stringify({ name: "", text: "SELECT 1", database: 7, role: "orgadmin" }))}`;
    expect(sharedWorksheet(hash)).toEqual({ name: "Shared", text: "SELECT 1", context: {} });
  });
});
