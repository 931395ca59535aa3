/** Saving and deleting the worksheets of the signed-in user; SELECT FROM deltastream.sys.worksheets reads them. */

import { asObject, type StatementContext } from "./wire";

export interface WorksheetDraft {
  readonly name: string;
  readonly text: string;
  readonly open: boolean;
  /** The version that was read; 0 for a new worksheet. */
  readonly version: number;
  readonly context: StatementContext;
}

export interface SavedWorksheet {
  readonly version: number;
  /** True if a version was replaced that was not read here. */
  readonly replaced: boolean;
}

/** Browsers send at most 64 KiB for a page that is gone; a character has up to three bytes. */
const KEEPALIVE_MAX = 20_000;

/** True if a browser sends a request with this text also for a page that is gone. */
export function survivesPage(text: string): boolean {
  return text.length < KEEPALIVE_MAX;
}

export function readSavedWorksheet(body: unknown): SavedWorksheet {
  const sent = asObject(body);
  return { version: typeof sent?.version === "number" ? sent.version : 0, replaced: sent?.replaced === true };
}
