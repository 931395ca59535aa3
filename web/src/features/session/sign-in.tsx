import { type FormEvent, useEffect, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { acceptInvitation, BY_COOKIE, beginSession, SINGLE_SIGN_ON, singleSignOn } from "../../api/session";
import { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { restoredContext } from "../../catalog/context";
import { Mark } from "../../ui/icons";
import { leaveForProvider } from "./session";

export interface SignedIn {
  readonly client: StatementClient;
  readonly token: string;
  readonly context: StatementContext;
}

interface SignInProps {
  /** Reason why an earlier session ended, if not by signing out. */
  readonly reason: string | null;
  readonly onSignIn: (session: SignedIn) => void;
}

type Attempt =
  | { readonly kind: "waiting" }
  | { readonly kind: "checking" }
  | { readonly kind: "refused"; readonly message: string; readonly hint: string };

type Way = "token" | "password" | "invitation";

export function SignIn({ reason, onSignIn }: SignInProps) {
  const [invitation] = useState(takenInvitation);
  const [way, setWay] = useState<Way>(invitation === null ? "token" : "invitation");
  const [user, setUser] = useState("");
  const [secret, setSecret] = useState("");
  const [attempt, setAttempt] = useState<Attempt>(
    reason === null ? { kind: "waiting" } : { kind: "refused", message: reason, hint: "" },
  );
  const [provider, setProvider] = useState<string | null>(null);
  const isRefused = attempt.kind === "refused";

  useEffect(() => {
    singleSignOn().then(setProvider);
  }, []);

  async function check(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    const token = way === "token" ? secret.trim() : BY_COOKIE;
    if (secret.trim() === "") return;
    setAttempt({ kind: "checking" });
    try {
      if (way === "password") await beginSession(user, secret);
      if (way === "invitation") await acceptInvitation(invitation ?? "", secret);
      const client = new StatementClient(token);
      onSignIn({ client, token, context: await restoredContext(client, {}) });
    } catch (error) {
      setAttempt({ kind: "refused", ...explained(failureOf(error), way) });
    }
  }

  function turn(): void {
    setWay(way === "token" ? "password" : "token");
    setSecret("");
    setAttempt({ kind: "waiting" });
  }

  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={check}>
        <h1>
          <Mark /> Headrace
        </h1>
        <p className="soft">Streaming SQL over the stores you already own.</p>
        {way === "password" ? (
          <>
            <label htmlFor="user">User</label>
            <input
              id="user"
              autoComplete="username"
              spellCheck={false}
              required
              value={user}
              aria-invalid={isRefused}
              onChange={(event) => setUser(event.target.value)}
            />
          </>
        ) : null}
        <label htmlFor="secret">{LABELS[way]}</label>
        <input
          key={way}
          id="secret"
          type="password"
          autoComplete={COMPLETIONS[way]}
          spellCheck={false}
          // biome-ignore lint/a11y/noAutofocus: it is what the page is for.
          autoFocus={way !== "password"}
          required
          value={secret}
          aria-invalid={isRefused}
          aria-describedby="secret-help"
          onChange={(event) => setSecret(event.target.value)}
        />
        <p id="secret-help" className="help">
          {HELP[way]}
        </p>
        {attempt.kind === "refused" ? (
          <div className="failure compact" role="alert">
            <p className="failure-message">{attempt.message}</p>
            {attempt.hint === "" ? null : <p className="failure-hint">{attempt.hint}</p>}
          </div>
        ) : null}
        <button type="submit" className="primary wide" disabled={attempt.kind === "checking"}>
          {attempt.kind === "checking" ? "Checking…" : "Sign in"}
        </button>
        <button type="button" className="wide other-way" onClick={turn}>
          {way === "token" ? "Use a password" : "Use an API token"}
        </button>
        {provider === null ? null : (
          <button type="button" className="wide other-way" onClick={() => leaveForProvider(SINGLE_SIGN_ON)}>
            Sign in with {provider}
          </button>
        )}
      </form>
    </main>
  );
}

const LABELS: Readonly<Record<Way, string>> = {
  token: "API token",
  password: "Password",
  invitation: "Choose a password",
};
const COMPLETIONS: Readonly<Record<Way, string>> = {
  token: "off",
  password: "current-password",
  invitation: "new-password",
};
const HELP: Readonly<Record<Way, string>> = {
  token:
    "The first start of headrace up stores a token in its data directory and prints the path: " +
    "~/.local/share/headrace/token by default. This browser tab keeps the token until you sign out.",
  password: "ALTER USER … SET PASSWORD sets the first password of the user admin.",
  invitation: "Choose a password of at least 12 characters, such as a few unrelated words.",
};
const INVITATION = "#invitation=";

/** The code of the address that an invited user opens; it goes out of the address at once, and out of the history. */
function takenInvitation(): string | null {
  if (!location.hash.startsWith(INVITATION)) return null;
  const code = location.hash.slice(INVITATION.length);
  history.replaceState(null, "", location.pathname);
  return code;
}

function explained({ kind, message, hint }: Failure, way: Way) {
  if (kind !== "denied" || way !== "token") return { message, hint };
  return {
    message: "The server did not accept this token.",
    hint: `${message.charAt(0).toUpperCase()}${message.slice(1).replace(/\.$/, "")}. Check that it was copied whole and has not expired.`,
  };
}
