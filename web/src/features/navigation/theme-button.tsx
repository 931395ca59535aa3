import { useSyncExternalStore } from "react";
import { Icon } from "../../ui/icons";
import { chooseTheme, chosenTheme, THEMES, watchTheme } from "./theme";

/** Changes between the system's colours, light and dark. */
export function ThemeButton() {
  const theme = useSyncExternalStore(watchTheme, chosenTheme);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
  return (
    <button
      type="button"
      className="ghost"
      aria-label={`Colours: ${theme}. Change to ${next}`}
      title={`Colours: ${theme}`}
      onClick={() => chooseTheme(next)}
    >
      <Icon name={`theme-${theme}`} />
    </button>
  );
}
