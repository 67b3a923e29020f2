// @ts-check
import { html } from "../core/html.js";
import { Icon } from "./icons.js";
import { CopyButton } from "./copy_button.js";

/**
 * An error of the service: what happened, its code, the next step.
 * @param {{problem: import("../core/api.js").ApiProblem, retry?: () => void, title?: string}} props
 */
export function ProblemBox({ problem, retry, title }) {
  return html`<div class="note bad" role="alert">
    <${Icon} name="error" />
    <div>
      <p><strong>${title ?? sentence(problem.message)}</strong>${problem.code && html` <code>${problem.code}</code>`}</p>
      ${title && html`<p>${sentence(problem.message)}</p>`}
      ${problem.errors.length > 0 && html`<ul>${problem.errors.map((one) => html`<li><code>${one.pointer}</code> ${one.message}</li>`)}</ul>`}
      ${problem.hint && html`<p>Next: ${withCode(problem.hint)}</p>`}
      <p class="actions">
        ${retry && html`<button type="button" class="small" onClick=${retry}>Try again</button>`}
        <${CopyButton} label="Copy error" text=${[problem.code, problem.message, problem.hint].filter(Boolean).join("\n")} />
      </p>
    </div>
  </div>`;
}

/** @param {string} text */
export function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/**
 * A text whose parts between backticks are shown as code.
 * @param {string} text
 */
export function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}
