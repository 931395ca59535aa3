import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { useAnswer } from "../../data/use-answer";
import { useSession } from "../../session-context";
import { sharedWorksheet } from "./share";
import {
  hasSameNames,
  openSheets,
  WORKSHEETS,
  type Worksheet,
  type WorksheetState,
  Worksheets,
} from "./worksheets";

// Of this browser tab: another tab may show another worksheet.
const ACTIVE_KEY = "headrace.workspace.worksheet";
/** Key of the text that earlier versions of this page kept. */
const EARLIER_TEXT_KEY = "headrace.workspace.text";

export interface OpenWorksheets {
  readonly worksheets: Worksheets;
  readonly state: WorksheetState;
  /** The worksheet in the editor; null until they are read. */
  readonly active: Worksheet | null;
  /** Shows a worksheet, and enters its context. */
  readonly choose: (id: string) => void;
}

/** The worksheets of the user, read at the start and at each refresh, and saved as they change. */
export function useWorksheets(): OpenWorksheets {
  const { client, context, currentContext, enterContext, beforeSignOut } = useSession();
  const [worksheets] = useState(
    () =>
      new Worksheets({
        save: (id, draft) => client.saveWorksheet(id, draft),
        remove: (id) => client.removeWorksheet(id),
      }),
  );
  const state = useSyncExternalStore(worksheets.subscribe, worksheets.state);
  const { data, failure } = useAnswer(WORKSHEETS);
  const active = state.sheets.find((sheet) => sheet.id === state.active) ?? null;
  const isStarted = useRef(false);

  useEffect(() => {
    if (data !== null) worksheets.merge(data);
    if (isStarted.current || (data === null && failure === null)) return;
    isStarted.current = true;
    const first = openedByLink(worksheets) ?? startingSheet(worksheets, currentContext());
    if (first !== null) enterContext(first.context);
    if (data === null || worksheets.state().sheets.length > 1) return;
    const [only] = worksheets.state().sheets;
    if (only === undefined || only.version > 0 || only.text !== "") return;
    client
      .quickStart()
      .then((text) => worksheets.fill(only.id, text))
      // A server that is away is reported by the banner; the editor stays empty.
      .catch(() => {});
  }, [client, currentContext, data, enterContext, failure, worksheets]);

  useEffect(() => {
    if (state.active !== null) sessionStorage.setItem(ACTIVE_KEY, state.active);
    else if (isStarted.current) worksheets.create("", currentContext());
  }, [state.active, worksheets, currentContext]);

  useEffect(() => {
    const sheet = worksheets.active();
    if (sheet !== null && !hasSameNames(sheet.context, context)) worksheets.edit(sheet.id, { context });
  }, [context, worksheets]);

  useEffect(() => beforeSignOut(worksheets.flush), [beforeSignOut, worksheets]);
  useEffect(() => {
    const onHidden = () => document.visibilityState === "hidden" && void worksheets.flush();
    const onUnload = (event: BeforeUnloadEvent) => {
      if (worksheets.isAtRisk()) event.preventDefault();
      void worksheets.flush();
    };
    document.addEventListener("visibilitychange", onHidden);
    window.addEventListener("beforeunload", onUnload);
    window.addEventListener("pagehide", worksheets.leave);
    return () => {
      document.removeEventListener("visibilitychange", onHidden);
      window.removeEventListener("beforeunload", onUnload);
      window.removeEventListener("pagehide", worksheets.leave);
      worksheets.leave();
    };
  }, [worksheets]);

  return {
    worksheets,
    state,
    active,
    choose: (id) => {
      worksheets.choose(id);
      const sheet = worksheets.active();
      if (sheet !== null && !hasSameNames(sheet.context, currentContext())) enterContext(sheet.context);
    },
  };
}

/** Opens a copy of the worksheet in the address, which then no longer names it; null if there is none. */
function openedByLink(worksheets: Worksheets): Worksheet | null {
  const shared = sharedWorksheet(location.hash);
  if (shared === null) return null;
  history.replaceState(history.state, "", location.pathname);
  const id = worksheets.create("", shared.context);
  worksheets.edit(id, { name: shared.name, text: shared.text });
  return worksheets.active();
}

/** Shows the worksheet that this browser tab had, or the first one; without any, a new one. Returns the one that was there. */
function startingSheet(worksheets: Worksheets, context: Worksheet["context"]): Worksheet | null {
  const earlier = sessionStorage.getItem(EARLIER_TEXT_KEY);
  sessionStorage.removeItem(EARLIER_TEXT_KEY);
  if (earlier !== null && earlier.trim() !== "") {
    const id = worksheets.create("", context);
    worksheets.edit(id, { text: earlier });
    return null;
  }
  const open = openSheets(worksheets.state());
  const kept = sessionStorage.getItem(ACTIVE_KEY);
  const sheet = open.find((each) => each.id === kept) ?? open[0];
  if (sheet === undefined) worksheets.create("", context);
  else worksheets.choose(sheet.id);
  return sheet ?? null;
}
