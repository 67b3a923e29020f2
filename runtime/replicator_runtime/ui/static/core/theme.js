// @ts-check
/** Light and dark: as the system, or as the reader chose. */
import { signal } from "./html.js";

/** @typedef {"system" | "light" | "dark"} Theme */
const KEY = "replicator.theme";

/** @type {{value: Theme}} */
export const theme = signal(/** @type {Theme} */ (stored()));

/** @returns {Theme} */
function stored() {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "system";
  } catch {
    return "system";
  }
}

/** Shows the page in the chosen theme. */
export function applyTheme() {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
}

/**
 * Chooses a theme, on this browser.
 * @param {Theme} chosen
 */
export function chooseTheme(chosen) {
  theme.value = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // A browser that stores nothing shows it until the next load.
  }
  applyTheme();
}
