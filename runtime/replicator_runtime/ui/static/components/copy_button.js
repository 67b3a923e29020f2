// @ts-check
import { html, useEffect, useState } from "../core/html.js";
import { cli, copy, curl } from "../core/commands.js";
import { Icon } from "./icons.js";

/**
 * Copies a text, and says so.
 * @param {{text: string | (() => string), label?: string, small?: boolean}} props
 */
export function CopyButton({ text, label = "Copy", small = true }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const act = async () => setSaid((await copy(typeof text === "function" ? text() : text)) ? "Copied" : "Not allowed by the browser");
  return html`<button type="button" class=${small ? "quiet small" : "quiet"} onClick=${act}>
    <${Icon} name=${said ? "ok" : "copy"} /><span aria-live="polite">${said || label}</span>
  </button>`;
}

/**
 * One action as a command and as a request.
 * @param {{words?: string[], method?: string, url?: string, body?: unknown, headers?: Record<string, string>}} props
 */
export function CopyAs({ words, method, url, body, headers }) {
  return html`<span class="copy-as">
    ${words && html`<${CopyButton} label="Copy as CLI" text=${() => cli(...words)} />`}
    ${method && url && html`<${CopyButton} label="Copy as curl" text=${() => curl(method, url, body, headers)} />`}
  </span>`;
}
