// @ts-check
/** What a job answered, in a dialog: its lines, and all of it as JSON. */
import { html } from "../core/html.js";
import { Dialog } from "../components/dialog.js";
import { withCode } from "../components/problem.js";
import { CopyButton } from "../components/copy_button.js";
import { shownJob } from "./followed.js";

/** The dialog; once in a page. */
export function AnswerPlace() {
  const shown = shownJob.value;
  if (!shown?.job) return null;
  return html`<${Dialog} key=${shown.key} title=${shown.title} wide=${true} onClose=${() => (shownJob.value = null)}>
    <${Answer} envelope=${shown.job["result"]} />
  </${Dialog}>`;
}

/** @param {{ envelope: any }} props */
export function Answer({ envelope }) {
  const error = envelope?.error;
  const text = JSON.stringify(envelope?.data ?? envelope, null, 2);
  return html`
    ${error && html`<p><code>${error.code}</code> ${withCode(error.message)}</p>${error.hint && html`<p class="hint">Next: ${withCode(error.hint)}</p>`}`}
    ${(envelope?.warnings ?? []).map((/** @type {string} */ one) => html`<p class="note warn">${one}</p>`)}
    <pre class="json" tabindex="0" aria-label="The answer as JSON">${text}</pre>
    <${CopyButton} text=${text} label="Copy JSON" />`;
}
