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

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function terminateStatement(queryId: string): string {
  return `TERMINATE QUERY ${UUID.test(queryId) ? queryId : quoteIdentifier(queryId)};`;
}

const EFFECT =
  /^\s*(create|drop|alter|update|insert|terminate|restart|resume|begin|grant|revoke|start|stop|use)\b/i;

/** True if a statement may have changed the items of the side panel. */
export function changesCatalog(statement: string): boolean {
  return EFFECT.test(statement);
}
