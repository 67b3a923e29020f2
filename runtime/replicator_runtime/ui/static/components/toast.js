// @ts-check
/** Short messages about what the page has just done. */
import { html, signal } from "../core/html.js";
import { asProblem } from "../core/resource.js";
import { Icon } from "./icons.js";
import { sentence, withCode } from "./problem.js";

/** @typedef {{id: number, tone: "good" | "bad", text: string, code?: string, hint?: string}} Toast */

/** @type {{value: Toast[]}} */
const toasts = signal(/** @type {Toast[]} */ ([]));
let last = 0;

/**
 * Says that something was done; it goes by itself.
 * @param {string} text
 */
export function say(text) {
  const id = show({ tone: "good", text });
  setTimeout(() => dismiss(id), 6000);
}

/**
 * Says what failed; it stays until it is closed.
 * @param {unknown} error
 */
export function sayProblem(error) {
  const problem = asProblem(error);
  show({ tone: "bad", text: problem.message, code: problem.code, hint: problem.hint });
}

/** @param {Omit<Toast, "id">} toast */
function show(toast) {
  last += 1;
  toasts.value = [...toasts.value.slice(-3), { ...toast, id: last }];
  return last;
}

/** @param {number} id */
function dismiss(id) {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Where the messages are shown. */
export function Toasts() {
  return html`<section class="toasts" aria-label="Messages" aria-live="polite">
    ${toasts.value.map(
      (toast) => html`<div key=${toast.id} class=${`toast ${toast.tone}`}>
        <${Icon} name=${toast.tone === "good" ? "ok" : "error"} />
        <div>
          <p>${sentence(toast.text)}${toast.code && html` <code>${toast.code}</code>`}</p>
          ${toast.hint && html`<p>Next: ${withCode(toast.hint)}</p>`}
        </div>
        <button type="button" class="quiet small" aria-label="Close message" onClick=${() => dismiss(toast.id)}><${Icon} name="close" /></button>
      </div>`,
    )}
  </section>`;
}
