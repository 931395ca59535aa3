import { Outlet, useLocation } from "@tanstack/react-router";
import { lazy, Suspense, useRef } from "react";
import { ContextBar } from "./features/context/context-bar";
import { Navigation } from "./features/navigation/navigation";
import { Shortcuts } from "./features/navigation/shortcuts";
import { ThemeButton } from "./features/navigation/theme-button";
import { useSession } from "./session-context";
import { Icon, Mark } from "./ui/icons";
import { PageLoading } from "./ui/page";

const WorkspacePage = lazy(() =>
  import("./workspace-page").then((module) => ({ default: module.WorkspacePage })),
);

/** The signed-in page: context above, navigation beside the page. The workspace stays mounted once it was shown, with what runs in it. */
export function Frame() {
  const { client, context, onContext, isAway, signOut } = useSession();
  const { pathname } = useLocation();
  const isWorkspace = pathname === "/" || pathname === "/sql";
  const wasShown = useRef(isWorkspace);
  wasShown.current ||= isWorkspace;

  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="head">
        <p className="brand">
          <Mark /> Headrace
        </p>
        <ContextBar client={client} context={context} onContext={onContext} />
        <div className="head-actions">
          <ThemeButton />
          <button type="button" className="ghost sign-out" aria-label="Sign out" onClick={signOut}>
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
      <Navigation />
      <div className="content" id="content" tabIndex={-1}>
        {wasShown.current ? (
          <Suspense fallback={isWorkspace ? <PageLoading /> : null}>
            <WorkspacePage isShown={isWorkspace} />
          </Suspense>
        ) : null}
        <Outlet />
      </div>
      <Shortcuts />
    </div>
  );
}
