/** Names in SQL text: parses names of LIST, and quotes names that the page inserts. */

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quotePath(path: readonly string[]): string {
  return path.map(quoteIdentifier).join(".");
}

const QUOTED_PART = /^(?:"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|([^."`]+))(?:\.|$)/;

/** A name that starts with a quote is read as a path of identifiers; any other is one part, dots included. */
export function readPath(name: string): readonly string[] {
  if (!/^["`]/.test(name)) return [name];
  const parts: string[] = [];
  let rest = name;
  while (rest !== "") {
    const match = QUOTED_PART.exec(rest);
    if (match === null) return [name];
    parts.push(match[1]?.replaceAll('""', '"') ?? match[2]?.replaceAll("``", "`") ?? match[3] ?? "");
    rest = rest.slice(match[0].length);
  }
  return parts;
}
