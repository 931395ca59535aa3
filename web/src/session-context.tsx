/** The signed-in session, for every page below the shell. */

import { createContext, type ReactNode, useContext } from "react";
import type { StatementClient } from "./api/statements";
import type { StatementContext } from "./api/wire";
import type { WorkspaceInbox } from "./workspace-inbox";

export interface Session {
  readonly client: StatementClient;
  readonly context: StatementContext;
  /** The context now, for code that runs after a render. */
  readonly currentContext: () => StatementContext;
  readonly onContext: (context: StatementContext) => void;
  /** Sets the names of a context that may be outdated, and then drops those that are there no longer. */
  readonly enterContext: (context: StatementContext) => void;
  /** Reads the server's objects anew, on every page. */
  readonly refresh: () => void;
  /** True while the server does not answer. */
  readonly isAway: boolean;
  /** Signs out when everything is saved. Resolves to the names of what could not be saved, and then stays signed in. */
  readonly signOut: () => Promise<readonly string[]>;
  /** Signs out, and loses what is not saved. */
  readonly signOutAnyway: () => void;
  /** Registers what saves before the user signs out, and resolves to the names of what it could not save. Returns how to stop that. */
  readonly beforeSignOut: (save: () => Promise<readonly string[]>) => () => void;
  readonly inbox: WorkspaceInbox;
  /** Puts a statement behind the editor's text and shows the workspace. */
  readonly writeStatement: (statement: string) => void;
  /** Opens a new worksheet in the workspace. */
  readonly newWorksheet: () => void;
  /** Runs a statement in the workspace, without changing the editor's text, and shows its result. */
  readonly runStatement: (statement: string) => void;
}

const SessionContext = createContext<Session | null>(null);

export function SessionProvider({
  session,
  children,
}: {
  readonly session: Session;
  readonly children: ReactNode;
}) {
  return <SessionContext value={session}>{children}</SessionContext>;
}

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("This component is outside of a session.");
  return session;
}
