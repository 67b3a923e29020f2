// @ts-check
/** The time that relative times are shown by: moves on every five seconds while the page is seen. */
import { html, signal } from "../core/html.js";
import { ago, time } from "../core/format.js";

const EVERY = 5000;

export const now = signal(Date.now());

setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, EVERY);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") now.value = Date.now();
});

/** How long ago something was; its title is the time itself. @param {{ at: string | null | undefined }} props */
export function Ago({ at }) {
  if (!at) return html`<span class="muted">never</span>`;
  return html`<time datetime=${at} title=${time(at)}>${ago(at, now.value)}</time>`;
}
