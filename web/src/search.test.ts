import { expect, test } from "vitest";
import { parseSearch, stringifySearch, texts } from "./search";

test.each(["180931e4", "007", "12", "true", "null", '"a"', "[1]", "a b&c=d", "é", "%41+"])(
  "the search word %s is the same in the address",
  (text) => {
    const address = stringifySearch({ text, type: undefined });
    expect(texts(parseSearch(address), ["text", "type"])).toEqual({ text });
    expect(parseSearch(`?text=${encodeURIComponent(text)}`)).toEqual({ text });
  },
);

test("an empty text is none", () => {
  expect(texts(parseSearch("?text=&type=stream"), ["text", "type"])).toEqual({ type: "stream" });
  expect(stringifySearch({})).toBe("");
});
