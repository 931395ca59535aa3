import { type FormEvent, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { restoredContext } from "../../catalog/context";
import { Mark } from "../../ui/icons";

export interface SignedIn {
  readonly client: StatementClient;
  readonly token: string;
  readonly context: StatementContext;
}

interface SignInProps {
  /** Why an earlier session ended, if it did not end by signing out. */
  readonly reason: string | null;
  readonly onSignIn: (session: SignedIn) => void;
}

type Attempt =
  | { readonly kind: "waiting" }
  | { readonly kind: "checking" }
  | { readonly kind: "refused"; readonly message: string; readonly hint: string };

export function SignIn({ reason, onSignIn }: SignInProps) {
  const [token, setToken] = useState("");
  const [attempt, setAttempt] = useState<Attempt>(
    reason === null ? { kind: "waiting" } : { kind: "refused", message: reason, hint: "" },
  );

  async function check(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    const trimmed = token.trim();
    if (trimmed === "") return;
    setAttempt({ kind: "checking" });
    const client = new StatementClient(trimmed);
    try {
      onSignIn({ client, token: trimmed, context: await restoredContext(client, {}) });
    } catch (error) {
      const failure = failureOf(error);
      setAttempt({ kind: "refused", ...explained(failure) });
    }
  }

  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={check}>
        <h1>
          <Mark /> Headrace
        </h1>
        <p className="soft">Streaming SQL over the stores you already own.</p>
        <label htmlFor="token">API token</label>
        <input
          id="token"
          type="password"
          autoComplete="off"
          spellCheck={false}
          // biome-ignore lint/a11y/noAutofocus: the page holds this one field.
          autoFocus
          required
          value={token}
          aria-invalid={attempt.kind === "refused"}
          aria-describedby="token-help"
          onChange={(event) => setToken(event.target.value)}
        />
        <p id="token-help" className="help">
          <code>headrace up</code> prints a token when it starts. It is kept in this browser tab only.
        </p>
        {attempt.kind === "refused" ? (
          <div className="failure compact" role="alert">
            <p className="failure-message">{attempt.message}</p>
            {attempt.hint === "" ? null : <p className="failure-hint">{attempt.hint}</p>}
          </div>
        ) : null}
        <button type="submit" className="primary wide" disabled={attempt.kind === "checking"}>
          {attempt.kind === "checking" ? "Checking the token…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}

function explained({ kind, message, hint }: Failure) {
  if (kind !== "denied") return { message, hint };
  return {
    message: "The server did not accept this token.",
    hint: `${message.replace(/\.$/, "")}. Check that it was copied whole and has not expired.`,
  };
}
