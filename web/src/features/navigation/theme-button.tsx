import { useState } from "react";
import { Icon } from "../../ui/icons";
import { chooseTheme, chosenTheme, THEMES } from "./theme";

/** Changes between the system's colours, light and dark. */
export function ThemeButton() {
  const [theme, setTheme] = useState(chosenTheme);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
  return (
    <button
      type="button"
      className="ghost"
      aria-label={`Colours: ${theme}. Change to ${next}`}
      title={`Colours: ${theme}`}
      onClick={() => {
        chooseTheme(next);
        setTheme(next);
      }}
    >
      <Icon name={`theme-${theme}`} />
    </button>
  );
}
