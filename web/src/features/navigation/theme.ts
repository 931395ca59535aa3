/** Light or dark colours. All colours of the page are CSS's `light-dark()`, which follows `color-scheme`. */

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const THEME_KEY = "headrace.theme";

/** The browser's choice for this page; the system's without one. */
export function chosenTheme(): Theme {
  const kept = localStorage.getItem(THEME_KEY);
  return THEMES.find((theme) => theme === kept) ?? "system";
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(THEME_KEY, theme);
  applyTheme(theme);
}

export function applyTheme(theme: Theme): void {
  document.documentElement.style.colorScheme = theme === "system" ? "" : theme;
  window.dispatchEvent(new Event("headrace-theme"));
}
