/** Signing in with a password: the server answers with a cookie that no script can read. */

import { away, RequestFailed } from "./failures";
import { failureOfStatus } from "./statements";

/** The token of a `StatementClient` whose requests carry that cookie instead. */
export const BY_COOKIE = "";

/** Throws RequestFailed when the server does not take the password. */
export function beginSession(user: string, password: string): Promise<void> {
  return send("session", "POST", { user, password });
}

/** Makes a user of an invitation, who is then signed in. Throws RequestFailed. */
export function acceptInvitation(invitation: string, password: string): Promise<void> {
  return send("session/invitation", "POST", { invitation, password });
}

/** Path where a browser begins to sign in with the provider of the server's settings, and to
 * which it returns.
 */
export const SINGLE_SIGN_ON = "/v2/session/openid";

/** Name of that way of signing in; null without a provider, or if the server does not answer. */
export async function singleSignOn(): Promise<string | null> {
  try {
    const response = await fetch(new URL("/v2/session/provider", location.origin), { cache: "no-store" });
    const body: unknown = response.ok ? await response.json() : null;
    const name = typeof body === "object" && body !== null && "name" in body ? body.name : null;
    return typeof name === "string" ? name : null;
  } catch {
    return null;
  }
}

/** Throws RequestFailed when there was no session to end. */
export function endSession(): Promise<void> {
  return send("session", "DELETE");
}

async function send(path: string, method: string, body?: Readonly<Record<string, string>>): Promise<void> {
  const init: RequestInit = { method, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(new URL(`/v2/${path}`, location.origin), init);
  } catch {
    throw new RequestFailed(away());
  }
  if (response.ok) return;
  throw new RequestFailed(failureOfStatus(response.status, await response.json().catch(() => null)));
}
