/** Who is signed in: a token, empty for a session with a cookie, kept for as long as the browser tab lives. */

const TOKEN_KEY = "headrace.token";

export function storedToken(): string | null {
  return sessionStorage.getItem(TOKEN_KEY);
}

export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/** Forgets the token and everything else this page kept, unfinished statements included. */
export function forgetSession(): void {
  for (const key of Object.keys(sessionStorage)) {
    if (key.startsWith("headrace.")) sessionStorage.removeItem(key);
  }
}
