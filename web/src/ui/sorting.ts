/** Order of a table's rows, as it stands in the address: a column's id, with `-` before it for the reverse. */

export type SortKey = number | string | null;

export interface Sorting {
  readonly id: string;
  readonly isDescending: boolean;
}

export function readSorting(text: string | undefined): Sorting | null {
  if (text === undefined || text === "" || text === "-") return null;
  return text.startsWith("-") ? { id: text.slice(1), isDescending: true } : { id: text, isDescending: false };
}

/** The next order after a click on a column: down, up, then none. Numbers are mostly wanted from the largest on. */
export function nextSorting(
  before: string | undefined,
  id: string,
  startsDescending: boolean,
): string | undefined {
  const [first, second] = startsDescending ? [`-${id}`, id] : [id, `-${id}`];
  if (before === first) return second;
  return before === second ? undefined : first;
}

/** The rows in order, NULLs last; equal rows stay in the order they were in. */
export function sorted<T>(
  rows: readonly T[],
  keyOf: (row: T) => SortKey,
  isDescending: boolean,
): readonly T[] {
  const direction = isDescending ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [keyOf(one), keyOf(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    return direction * String(a).localeCompare(String(b), "en", { numeric: true });
  });
}
