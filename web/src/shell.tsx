import type { SQLNamespace } from "@codemirror/lang-sql";
import { type CSSProperties, type RefObject, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { StatementClient } from "./api/statements";
import type { StatementContext } from "./api/wire";
import { isAboutContext, keepContext, restoredContext } from "./catalog/context";
import { ContextBar } from "./features/context/context-bar";
import { Explorer } from "./features/explorer/explorer";
import type { SignedIn } from "./features/session/sign-in";
import { Workspace } from "./features/workspace/workspace";
import type { SqlEditor } from "./sql/editor";
import { changesCatalog } from "./sql/identifiers";
import { Icon, Mark } from "./ui/icons";
import { useReachability } from "./use-reachability";

type Names = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

interface ShellProps {
  readonly session: SignedIn;
  readonly onSignOut: (reason: string | null) => void;
}

/** The signed-in page: context above, explorer on the left, workspace beside it. */
export function Shell({ session, onSignOut }: ShellProps) {
  const { client } = session;
  const [context, setContext] = useState<StatementContext>(session.context);
  const contextNow = useRef(context);
  const [version, setVersion] = useState(0);
  const [names, setNames] = useState<Names>({});
  const [sideWidth, setSideWidth] = useState(300);
  const editor = useRef<SqlEditor | null>(null);
  const runApart = useRef<(statement: string) => void>(() => {});
  const refresh = useCallback(() => setVersion((before) => before + 1), []);

  const onContext = useCallback((next: StatementContext) => {
    contextNow.current = next;
    keepContext(next);
    setContext(next);
  }, []);
  const validate = useValidation(client, contextNow, onContext);
  const { isAway, reportAway } = useReachability(
    useCallback(() => {
      validate();
      refresh();
    }, [validate, refresh]),
  );
  useEffect(() => keepContext(contextNow.current), []);
  useEffect(
    () =>
      client.watchFailures((failure) => {
        if (failure.kind === "away") reportAway();
        if (failure.kind === "denied") onSignOut("The server no longer accepts this session. Sign in again.");
        if (failure.kind === "sql" && isAboutContext(failure.sqlState)) validate();
      }),
    [client, reportAway, onSignOut, validate],
  );
  useEffect(() => {
    // Show objects that were created elsewhere when the user returns to the page.
    const onVisible = () => document.visibilityState === "visible" && refresh();
    document.addEventListener("visibilitychange", onVisible);
    return () => document.removeEventListener("visibilitychange", onVisible);
  }, [refresh]);
  const onNames = useCallback((database: string, schema: string, relations: readonly string[]) => {
    setNames((before) => ({ ...before, [database]: { ...before[database], [schema]: relations } }));
  }, []);
  const onInsert = useCallback((statement: string) => editor.current?.insertStatement(statement), []);
  const onRun = useCallback((statement: string) => runApart.current(statement), []);
  const environment = useMemo(
    () => ({
      client,
      currentContext: () => contextNow.current,
      onContext,
      onSuccess: (statement: { readonly text: string }) => {
        if (changesCatalog(statement.text)) refresh();
      },
    }),
    [client, onContext, refresh],
  );
  const completion = useMemo(() => completionNames(names, context), [names, context]);

  return (
    <div className="shell" style={{ "--side": `${sideWidth}px` } as CSSProperties}>
      <header className="head">
        <h1>
          <Mark /> Headrace
        </h1>
        <ContextBar client={client} context={context} onContext={onContext} />
        <button type="button" className="ghost sign-out" onClick={() => onSignOut(null)}>
          <Icon name="sign-out" /> Sign out
        </button>
      </header>
      {isAway ? (
        <div className="banner" role="alert">
          <strong>The server does not answer.</strong> Check that Headrace is running. This page reconnects by
          itself; queries that were created keep running on the server.
        </div>
      ) : null}
      <Explorer
        client={client}
        context={context}
        version={version}
        onRefresh={refresh}
        onRun={onRun}
        onInsert={onInsert}
        onNames={onNames}
        width={sideWidth}
        onWidth={setSideWidth}
      />
      <Workspace environment={environment} editor={editor} runApart={runApart} names={completion} />
    </div>
  );
}

/** A function that drops the names of the context that are there no longer; while it works, further calls do nothing. */
function useValidation(
  client: StatementClient,
  contextNow: RefObject<StatementContext>,
  onContext: (context: StatementContext) => void,
): () => void {
  const isWorking = useRef(false);
  return useCallback(() => {
    if (isWorking.current) return;
    isWorking.current = true;
    const before = contextNow.current;
    restoredContext(client, before)
      .then((found) => {
        if (contextNow.current === before && !isSame(found, before)) onContext(found);
      })
      // The client's observers have already received the failure.
      .catch(() => {})
      .finally(() => {
        isWorking.current = false;
      });
  }, [client, contextNow, onContext]);
}

function isSame(one: StatementContext, other: StatementContext): boolean {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]) as Set<keyof StatementContext>;
  return [...names].every((name) => one[name] === other[name]);
}

/** Relations of the current schema complete by their bare names, all others by their paths. */
function completionNames(names: Names, context: StatementContext): SQLNamespace {
  const here = names[context.database ?? ""]?.[context.schema ?? ""] ?? [];
  const bare = Object.fromEntries(here.map((relation) => [relation, []]));
  const paths = Object.fromEntries(
    Object.entries(names).map(([database, schemas]) => [
      database,
      Object.fromEntries(
        Object.entries(schemas).map(([schema, relations]) => [
          schema,
          Object.fromEntries(relations.map((relation) => [relation, []])),
        ]),
      ),
    ]),
  );
  return { ...bare, ...paths };
}
