// @ts-check
import { html, render } from "./html.js";
import { loadSession } from "./session.js";
import { startRouter } from "./router.js";
import { applyTheme } from "./theme.js";
import { Shell } from "../components/shell.js";

applyTheme();
startRouter();
const place = /** @type {HTMLElement} */ (document.getElementById("page"));
place.replaceChildren();
render(html`<${Shell} />`, place);
loadSession();
