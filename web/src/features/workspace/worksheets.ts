/** The worksheets of the user: the tabs of the editor. Changes are saved after a pause, and the last writer wins. */

import { failureOf } from "../../api/failures";
import type { StatementContext } from "../../api/wire";
import { type SavedWorksheet, survivesPage, type WorksheetDraft } from "../../api/worksheets";
import { type Fields, selectFrom } from "../../data/select";

/** Pause in typing before a worksheet is saved. */
export const SAVE_DELAY_MS = 800;

export interface Worksheet {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly isOpen: boolean;
  /** The last version that this page has read or saved; 0 before the first. */
  readonly version: number;
  /** The names that the text is run in. */
  readonly context: StatementContext;
  /** Changes when the text was replaced by another than the editor's. */
  readonly revision: number;
  readonly isDirty: boolean;
}

export interface WorksheetState {
  readonly sheets: readonly Worksheet[];
  readonly active: string | null;
  readonly notice: string | null;
}

/** The requests that the worksheets need. */
export interface WorksheetRequests {
  readonly save: (id: string, draft: WorksheetDraft) => Promise<SavedWorksheet>;
  readonly remove: (id: string) => Promise<void>;
}

export const WORKSHEETS = selectFrom(
  "worksheets",
  [
    "id",
    "name",
    "text",
    "is_open",
    "version",
    "role_name",
    "database_name",
    "schema_name",
    "store_name",
    "compute_pool_name",
  ],
  "ORDER BY created_at",
);

type WorksheetRow = ReturnType<typeof WORKSHEETS.read>[number];
type Change = Partial<Pick<Worksheet, "name" | "text" | "context" | "isOpen">>;

export class Worksheets {
  readonly #requests: WorksheetRequests;
  readonly #listeners = new Set<() => void>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  /** The requests on their way, with what each saves. */
  readonly #saving = new Map<string, { readonly sheet: Worksheet; readonly done: Promise<void> }>();
  readonly #failed = new Set<string>();
  #state: WorksheetState = { sheets: [], active: null, notice: null };

  constructor(requests: WorksheetRequests) {
    this.#requests = requests;
  }

  // Arrow functions, since React calls them alone.
  readonly state = (): WorksheetState => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Takes over what the server has. What was typed here and is not saved yet stays, and will replace it. */
  merge(rows: readonly WorksheetRow[]): void {
    const known = new Map(this.#state.sheets.map((sheet) => [sheet.id, sheet]));
    const changed: string[] = [];
    for (const row of rows) {
      const read = readWorksheet(row);
      const here = known.get(read.id);
      if (here === undefined) known.set(read.id, read);
      else if (!here.isDirty && read.version > here.version) {
        known.set(read.id, { ...read, revision: here.revision + 1 });
        if (read.text !== here.text) changed.push(read.name);
      }
    }
    const notice =
      changed.length === 0
        ? this.#state.notice
        : `Changed elsewhere, and shown as it is now: ${changed.join(", ")}.`;
    this.#set({ sheets: [...known.values()], notice });
    for (const sheet of this.#state.sheets) if (sheet.isDirty) this.#schedule(sheet.id);
  }

  /** Opens a new worksheet, and saves it when it is changed. Returns its id. */
  create(text: string, context: StatementContext): string {
    const id = crypto.randomUUID();
    const sheet = {
      ...{ id, name: newName(this.#state.sheets), text, context },
      ...{ isOpen: true, version: 0, revision: 0, isDirty: false },
    };
    this.#set({ sheets: [...this.#state.sheets, sheet], active: id });
    return id;
  }

  /** The worksheet in the editor. */
  active(): Worksheet | null {
    return this.#state.sheets.find((sheet) => sheet.id === this.#state.active) ?? null;
  }

  /** Sets the text of a worksheet that is still empty; it is not worth saving before the user changes it. */
  fill(id: string, text: string): void {
    const sheets = this.#state.sheets.map((sheet) =>
      sheet.id === id && sheet.text === "" ? { ...sheet, text, revision: sheet.revision + 1 } : sheet,
    );
    this.#set({ sheets });
  }

  /** Shows a worksheet, and saves the one that was shown. */
  choose(id: string): void {
    if (id !== this.#state.active) void this.flush();
    this.#set({ active: id });
  }

  edit(id: string, change: Change): void {
    const sheets = this.#state.sheets.map((sheet) =>
      sheet.id === id ? { ...sheet, ...change, isDirty: true } : sheet,
    );
    this.#set({ sheets });
    this.#schedule(id);
  }

  /** Closes a worksheet; it can be opened again. An empty one is deleted. The tab beside it is shown. */
  close(id: string): void {
    const open = openSheets(this.#state);
    const place = open.findIndex((sheet) => sheet.id === id);
    const next = open[place + 1] ?? open[place - 1] ?? null;
    if (this.#state.active === id) this.#set({ active: next?.id ?? null });
    if (open[place]?.text.trim() === "") this.remove(id);
    else this.edit(id, { isOpen: false });
  }

  /** Deletes a worksheet for good. */
  remove(id: string): void {
    const sheet = this.#state.sheets.find((each) => each.id === id);
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#set({ sheets: this.#state.sheets.filter((each) => each.id !== id) });
    if (sheet === undefined || sheet.version === 0) return;
    this.#requests.remove(id).catch((error: unknown) => this.#set({ notice: failureOf(error).message }));
  }

  dismissNotice(): void {
    this.#set({ notice: null });
  }

  /** Saves what is not saved yet, without waiting for a pause. Resolves to the names of what could not be saved. */
  readonly flush = async (): Promise<readonly string[]> => {
    await Promise.all(this.#unsaved().map(({ id }) => this.#save(id)));
    return this.#unsaved().map(({ name }) => name);
  };

  /** Sends what is not saved yet: the page is left, and will not learn whether it was saved. */
  readonly leave = (): void => {
    for (const sheet of this.#unsaved()) {
      // The server keeps the last request, which is this one even if an earlier one is on its way.
      if (this.#saving.get(sheet.id)?.sheet !== sheet) void this.#send(sheet);
    }
  };

  /** True if leaving the page now may lose text: a save has failed, or a browser would not send the text of a page that is gone. */
  isAtRisk(): boolean {
    return this.#unsaved().some((sheet) => this.#failed.has(sheet.id) || !survivesPage(sheet.text));
  }

  #unsaved(): readonly Worksheet[] {
    return this.#state.sheets.filter((sheet) => sheet.isDirty);
  }

  #schedule(id: string): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.set(
      id,
      setTimeout(() => void this.#save(id), SAVE_DELAY_MS),
    );
  }

  async #save(id: string): Promise<void> {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    // One request at a time, so that a worksheet does not replace itself.
    for (let earlier = this.#saving.get(id); earlier !== undefined; earlier = this.#saving.get(id))
      await earlier.done;
    const sheet = this.#state.sheets.find((each) => each.id === id);
    if (sheet === undefined || !sheet.isDirty) return;
    const done = this.#send(sheet);
    this.#saving.set(id, { sheet, done });
    await done;
  }

  async #send(sheet: Worksheet): Promise<void> {
    const { id, name, text, isOpen, version, context } = sheet;
    try {
      const saved = await this.#requests.save(id, { name, text, open: isOpen, version, context });
      this.#failed.delete(id);
      this.#saved(sheet, saved);
    } catch (error) {
      // It stays here, and the next change or refresh tries again. A server that is away has its banner.
      this.#failed.add(id);
      const failure = failureOf(error);
      if (failure.kind !== "away") this.#set({ notice: `${sheet.name} is not saved: ${failure.message}` });
    } finally {
      if (this.#saving.get(id)?.sheet === sheet) this.#saving.delete(id);
    }
  }

  #saved(sent: Worksheet, { version, replaced }: SavedWorksheet): void {
    const sheets = this.#state.sheets.map((sheet) => {
      if (sheet.id !== sent.id) return sheet;
      const isSame =
        sheet.text === sent.text &&
        sheet.name === sent.name &&
        sheet.isOpen === sent.isOpen &&
        sheet.context === sent.context;
      return { ...sheet, version, isDirty: !isSame };
    });
    const notice = replaced
      ? `${sent.name} was changed elsewhere too; what you typed here replaced that.`
      : this.#state.notice;
    this.#set({ sheets, notice });
  }

  #set(part: Partial<WorksheetState>): void {
    this.#state = { ...this.#state, ...part };
    for (const listener of this.#listeners) listener();
  }
}

export function openSheets({ sheets }: WorksheetState): readonly Worksheet[] {
  return sheets.filter((sheet) => sheet.isOpen);
}

function readWorksheet(row: WorksheetRow): Worksheet {
  return {
    id: row.id ?? "",
    name: row.name ?? "",
    text: row.text ?? "",
    isOpen: row.is_open === "true",
    version: Number(row.version),
    context: contextOf(row),
    revision: 0,
    isDirty: false,
  };
}

const CONTEXT = [
  ["role", "role_name"],
  ["database", "database_name"],
  ["schema", "schema_name"],
  ["store", "store_name"],
  ["computePool", "compute_pool_name"],
] as const;

function contextOf(row: Fields<(typeof CONTEXT)[number][1]>): StatementContext {
  const names = CONTEXT.flatMap(([field, column]) => (row[column] === null ? [] : [[field, row[column]]]));
  return Object.fromEntries(names) as StatementContext;
}

/** True if two contexts have the same names; the organization is that of the session. */
export function hasSameNames(one: StatementContext, other: StatementContext): boolean {
  return CONTEXT.every(([field]) => one[field] === other[field]);
}

/** The lowest number that no worksheet has in its name. */
function newName(sheets: readonly Worksheet[]): string {
  const names = new Set(sheets.map((sheet) => sheet.name));
  let number = 1;
  while (names.has(`Worksheet ${number}`)) number++;
  return `Worksheet ${number}`;
}
