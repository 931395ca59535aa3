import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { applyTheme, chosenTheme } from "./features/navigation/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/shell.css";
import "./styles/workspace.css";
import "./styles/grid.css";
import "./styles/pages.css";
import "./styles/forms.css";

applyTheme(chosenTheme());
const root = document.getElementById("root");
if (root === null) throw new Error("The page has no element with the id 'root'.");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
