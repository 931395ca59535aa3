import { lazy, Suspense, useCallback, useEffect, useState } from "react";
import { failureOf } from "./api/failures";
import { BY_COOKIE, endSession } from "./api/session";
import { StatementClient } from "./api/statements";
import { keptContext, restoredContext } from "./catalog/context";
import { forgetSession, keepToken, storedToken, takenReturn } from "./features/session/session";
import { type SignedIn, SignIn } from "./features/session/sign-in";

// A visitor who is not signed in needs the form only.
const Shell = lazy(() => import("./shell").then((module) => ({ default: module.Shell })));

type Session =
  | { readonly kind: "checking"; readonly token: string }
  | { readonly kind: "out"; readonly reason: string | null }
  | { readonly kind: "in"; readonly session: SignedIn };

function startingSession(): Session {
  const returned = takenReturn();
  if (returned?.signedIn === true) keepToken(BY_COOKIE);
  if (returned?.signedIn === false) return { kind: "out", reason: returned.reason };
  const token = storedToken();
  return token === null ? { kind: "out", reason: null } : { kind: "checking", token };
}

export function App() {
  const [state, setState] = useState<Session>(startingSession);

  const signIn = useCallback((session: SignedIn) => {
    keepToken(session.token);
    setState({ kind: "in", session });
  }, []);
  const signOut = useCallback((reason: string | null) => {
    if (storedToken() === BY_COOKIE) {
      // It may have ended already, which is why we are here.
      endSession().catch(() => {});
    }
    forgetSession();
    setState({ kind: "out", reason });
  }, []);

  useEffect(() => {
    if (state.kind !== "checking") return;
    const client = new StatementClient(state.token);
    let isOver = false;
    restoredContext(client, keptContext())
      .then((context) => {
        if (!isOver) signIn({ client, token: state.token, context });
      })
      .catch((error: unknown) => {
        if (isOver) return;
        const failure = failureOf(error);
        // If the server is away, the token may still be valid: open the page and wait for the server.
        if (failure.kind === "away")
          setState({ kind: "in", session: { client, token: state.token, context: keptContext() } });
        else signOut(failure.kind === "denied" ? "The session has ended. Sign in again." : failure.message);
      });
    return () => {
      isOver = true;
    };
  }, [state, signIn, signOut]);

  switch (state.kind) {
    case "checking":
      return <p className="checking">Signing in…</p>;
    case "out":
      return <SignIn key={state.reason} reason={state.reason} onSignIn={signIn} />;
    case "in":
      return (
        <Suspense fallback={<p className="checking">Loading…</p>}>
          <Shell session={state.session} onSignOut={signOut} />
        </Suspense>
      );
  }
}
