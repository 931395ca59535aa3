import { Outlet, useLocation } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo, useRef, useState } from "react";
import type { ContextField } from "./catalog/context";
import { useConsole } from "./data/use-console";
import { ContextBar } from "./features/context/context-bar";
import { ContextDialog } from "./features/context/context-dialog";
import { Navigation } from "./features/navigation/navigation";
import { pagesOf } from "./features/navigation/pages";
import { ShortcutList, useShortcuts } from "./features/navigation/shortcuts";
import { chooseTheme } from "./features/navigation/theme";
import { ThemeButton } from "./features/navigation/theme-button";
import type { Command } from "./features/palette/items";
import { isTourSeen, markTourSeen } from "./features/tour/steps";
import { TourOffer } from "./features/tour/tour-offer";
import { useSession } from "./session-context";
import { Dialog } from "./ui/dialog";
import { Icon, Mark } from "./ui/icons";
import { COMMAND_KEY } from "./ui/keys";
import { PageLoading } from "./ui/page";

const WorkspacePage = lazy(() =>
  import("./workspace-page").then((module) => ({ default: module.WorkspacePage })),
);

const Tour = lazy(() => import("./features/tour/tour").then((module) => ({ default: module.Tour })));

const Palette = lazy(() =>
  import("./features/palette/palette").then((module) => ({ default: module.Palette })),
);

/** The dialog over the page: the palette, the shortcuts, or the names for a field of the context. */
type Overlay = "palette" | "shortcuts" | ContextField;

/** The signed-in page: context above, navigation beside the page. The workspace stays mounted once it was shown, with what runs in it. */
export function Frame() {
  const { client, context, onContext, isAway, refresh, newWorksheet, signOut, signOutAnyway } = useSession();
  const [overlay, setOverlay] = useState<Overlay | null>(null);
  const [tour, setTour] = useState<"offered" | "shown" | "closed">(() =>
    isTourSeen() ? "closed" : "offered",
  );
  const [unsaved, setUnsaved] = useState<readonly string[]>([]);
  const close = useCallback(() => setOverlay(null), []);
  const leave = () => void signOut().then(setUnsaved);
  const parts = useConsole();
  const pages = useMemo(() => pagesOf(parts), [parts]);
  useShortcuts({
    pages,
    onList: useCallback(() => setOverlay("shortcuts"), []),
    onPalette: useCallback(() => setOverlay("palette"), []),
  });
  const { pathname } = useLocation();
  const isWorkspace = pathname === "/" || pathname === "/sql";
  const wasShown = useRef(isWorkspace);
  wasShown.current ||= isWorkspace;

  function runCommand(command: Command): void {
    if (command.kind === "use") setOverlay(command.field);
    else if (command.kind === "theme") chooseTheme(command.theme);
    else if (command.kind === "shortcuts") setOverlay("shortcuts");
    else if (command.kind === "refresh") refresh();
    else if (command.kind === "tour") setTour("shown");
    else if (command.kind === "new-worksheet") newWorksheet();
    else leave();
  }

  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="head">
        <p className="brand">
          <Mark /> Headrace
        </p>
        <ContextBar context={context} onAsk={setOverlay} />
        <div className="head-actions">
          <button
            type="button"
            className="ghost"
            aria-label="Find a page, an action or an object"
            title={`Find (${COMMAND_KEY}+K)`}
            onClick={() => setOverlay("palette")}
          >
            <Icon name="search" />
          </button>
          <ThemeButton />
          <button type="button" className="ghost sign-out" aria-label="Sign out" onClick={leave}>
            <Icon name="sign-out" /> <span>Sign out</span>
          </button>
        </div>
      </header>
      {isAway ? (
        <div className="banner" role="alert">
          <strong>The server does not answer.</strong> Check that Headrace is running. This page reconnects by
          itself; queries that were created keep running on the server.
        </div>
      ) : null}
      <Navigation pages={pages} />
      <div className="content" id="content" tabIndex={-1}>
        {wasShown.current ? (
          <Suspense fallback={isWorkspace ? <PageLoading /> : null}>
            <WorkspacePage isShown={isWorkspace} />
          </Suspense>
        ) : null}
        <Outlet />
      </div>
      {tour === "offered" ? (
        <TourOffer
          onStart={() => setTour("shown")}
          onDismiss={() => {
            markTourSeen();
            setTour("closed");
          }}
        />
      ) : null}
      {tour === "shown" ? (
        <Suspense fallback={null}>
          <Tour onClose={() => setTour("closed")} />
        </Suspense>
      ) : null}
      {unsaved.length === 0 ? null : (
        <Dialog
          title="Sign out without saving?"
          onClose={() => setUnsaved([])}
          actions={
            <>
              <button type="button" className="secondary" onClick={() => setUnsaved([])}>
                Stay
              </button>
              <button type="button" className="danger" onClick={signOutAnyway}>
                Sign out
              </button>
            </>
          }
        >
          <p>The server has not saved your last changes of {unsaved.join(", ")}. Signing out loses them.</p>
        </Dialog>
      )}
      {overlay === null ? null : overlay === "shortcuts" ? (
        <ShortcutList pages={pages} onClose={close} />
      ) : overlay === "palette" ? (
        <Suspense fallback={null}>
          <Palette pages={pages} onCommand={runCommand} onClose={close} />
        </Suspense>
      ) : (
        <ContextDialog
          key={overlay}
          client={client}
          context={context}
          field={overlay}
          onContext={onContext}
          onClose={close}
        />
      )}
    </div>
  );
}
