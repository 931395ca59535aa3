const LETTERS: Readonly<Record<string, string>> = {
  stream: "S",
  changelog: "C",
  table: "T",
  materialized_view: "V",
};

/** The type of a relation, with the letter that the explorer shows. */
export function RelationType({ type }: { readonly type: string }) {
  return (
    <span className="state">
      <span className={`letter ${type.replaceAll("_", "-")}`} aria-hidden="true">
        {LETTERS[type] ?? "R"}
      </span>
      {type.replaceAll("_", " ")}
    </span>
  );
}
