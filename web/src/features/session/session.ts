/** Credential of the signed-in user: a token, empty for a session with a cookie, kept for as long
 * as the browser tab lives.
 */

const TOKEN_KEY = "headrace.token";

export function storedToken(): string | null {
  return sessionStorage.getItem(TOKEN_KEY);
}

export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN_KEY, token);
}

const SIGNED_IN = "#signed-in";
const NOT_SIGNED_IN = "#not-signed-in=";
const REASONS: Readonly<Record<string, string>> = {
  again: "This browser did not start that sign-in, or it has expired. Sign in again.",
  away: "The sign-in provider does not answer. Try again later.",
  unknown: "You are not a user of this server. Ask an administrator for an invitation.",
  unverified: "The sign-in provider has not verified your e-mail address.",
};

const HASH_KEY = "headrace.hash";

/** Leaves the page for the sign-in provider. The fragment of the address, such as a shared worksheet, is there again on return. */
export function leaveForProvider(address: string): void {
  sessionStorage.setItem(HASH_KEY, location.hash);
  location.assign(address);
}

/** Result of a single sign-on, if the browser just returned from it: signed in, or a reason why
 * not. It is removed from the address at once.
 */
export function takenReturn(): { readonly signedIn: boolean; readonly reason: string } | null {
  const hash = location.hash;
  if (hash !== SIGNED_IN && !hash.startsWith(NOT_SIGNED_IN)) return null;
  const kept = sessionStorage.getItem(HASH_KEY) ?? "";
  sessionStorage.removeItem(HASH_KEY);
  history.replaceState(null, "", location.pathname + kept);
  const reason = REASONS[hash.slice(NOT_SIGNED_IN.length)] ?? "The sign-in was refused.";
  return { signedIn: hash === SIGNED_IN, reason };
}

/** Forgets the token and everything else this page kept, unfinished statements included. */
export function forgetSession(): void {
  for (const key of Object.keys(sessionStorage)) {
    if (key.startsWith("headrace.")) sessionStorage.removeItem(key);
  }
}
