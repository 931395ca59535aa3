/** Statements and commands of other pages for the workspace, which may not be there yet. */

export type InboxEntry =
  | { readonly kind: "write" | "run"; readonly statement: string }
  | { readonly kind: "new worksheet" };
type Reader = (entry: InboxEntry) => void;

export class WorkspaceInbox {
  readonly #waiting: InboxEntry[] = [];
  #reader: Reader | null = null;

  put(entry: InboxEntry): void {
    if (this.#reader === null) this.#waiting.push(entry);
    else this.#reader(entry);
  }

  /** Gives the waiting entries, and all later ones, to a reader. Returns how to stop that. */
  open(reader: Reader): () => void {
    this.#reader = reader;
    for (const entry of this.#waiting.splice(0)) reader(entry);
    return () => {
      if (this.#reader === reader) this.#reader = null;
    };
  }
}
