import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { type RefObject, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { StatementClient } from "./api/statements";
import type { StatementContext } from "./api/wire";
import { isAboutContext, keepContext, restoredContext } from "./catalog/context";
import { ANSWER, FeedProvider } from "./data/feed";
import type { SignedIn } from "./features/session/sign-in";
import { router } from "./router";
import { type Session, SessionProvider } from "./session-context";
import { useReachability } from "./use-reachability";
import { WorkspaceInbox } from "./workspace-inbox";

interface ShellProps {
  readonly session: SignedIn;
  readonly onSignOut: (reason: string | null) => void;
}

/** The state of a signed-in user: the context of statements, cached answers, and whether the server answers. */
export function Shell({ session, onSignOut }: ShellProps) {
  const { client } = session;
  const [context, setContext] = useState<StatementContext>(session.context);
  const contextNow = useRef(context);
  const [inbox] = useState(() => new WorkspaceInbox());
  const [answers] = useState(newAnswers);
  const [saves] = useState(() => new Set<() => Promise<readonly string[]>>());

  const refresh = useCallback(() => {
    void answers.invalidateQueries({
      predicate: ({ queryKey, state }) => queryKey[0] === ANSWER || state.status === "error",
    });
  }, [answers]);
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
  const value = useMemo<Session>(() => {
    const toWorkspace = (kind: "write" | "run") => (statement: string) => {
      void router.navigate({ to: "/" });
      inbox.put({ kind, statement });
    };
    return {
      client,
      context,
      currentContext: () => contextNow.current,
      onContext,
      enterContext: (next) => {
        const { organization, role } = contextNow.current;
        const kept = {
          ...(organization === undefined ? {} : { organization }),
          ...(role === undefined ? {} : { role }),
        };
        onContext({ ...kept, ...next });
        validate();
      },
      refresh,
      isAway,
      signOut: async () => {
        const unsaved = (await Promise.all([...saves].map((save) => save()))).flat();
        if (unsaved.length === 0) onSignOut(null);
        return unsaved;
      },
      signOutAnyway: () => onSignOut(null),
      beforeSignOut: (save) => {
        saves.add(save);
        return () => saves.delete(save);
      },
      inbox,
      writeStatement: toWorkspace("write"),
      runStatement: toWorkspace("run"),
      newWorksheet: () => {
        void router.navigate({ to: "/" });
        inbox.put({ kind: "new worksheet" });
      },
    };
  }, [client, context, onContext, validate, refresh, isAway, onSignOut, inbox, saves]);

  return (
    <QueryClientProvider client={answers}>
      <SessionProvider session={value}>
        <FeedProvider>
          <RouterProvider router={router} />
        </FeedProvider>
      </SessionProvider>
    </QueryClientProvider>
  );
}

/** A failure is shown at once, and the next refresh tries again. */
function newAnswers(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: { retry: false, refetchOnWindowFocus: false, refetchOnReconnect: false, staleTime: 5000 },
    },
  });
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
