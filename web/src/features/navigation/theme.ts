/** Light or dark colours. All colours of the page are CSS's `light-dark()`, which follows `color-scheme`. */

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const THEME_KEY = "headrace.theme";
const THEME_CHANGED = "headrace-theme";

/** The browser's choice for this page; the system's without one. */
export function chosenTheme(): Theme {
  const kept = localStorage.getItem(THEME_KEY);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(THEME_KEY, theme);
  applyTheme(theme);
}

/** Calls `onChange` when the theme changes; returns how to stop that. */
export function watchTheme(onChange: () => void): () => void {
  window.addEventListener(THEME_CHANGED, onChange);
  return () => window.removeEventListener(THEME_CHANGED, onChange);
}

export function applyTheme(theme: Theme): void {
  document.documentElement.style.colorScheme = theme === "system" ? "" : theme;
  window.dispatchEvent(new Event(THEME_CHANGED));
}
