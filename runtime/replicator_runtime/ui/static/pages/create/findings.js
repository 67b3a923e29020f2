// @ts-check
import { html } from "../../core/html.js";
import { StatusBadge } from "../../components/badge.js";
import { CopyButton } from "../../components/copy_button.js";
import { sentence, withCode } from "../../components/problem.js";

/**
 * Findings, each with what it means and what to do.
 * @param {{findings: import("./assessment.js").Finding[]}} props
 */
export function Findings({ findings }) {
  return html`<ul class="checks framed">${findings.map(
    (one, index) => html`<li key=${index}>
      <${StatusBadge} state=${one.severity} />
      <div>
        <p><strong>${where(one)}${sentence(one.description)}</strong>${one.code && html` <code>${one.code}</code>`}</p>
        ${one.impact && html`<p class="muted">${withCode(one.impact)}</p>`}
        <p>Next: ${withCode(one.suggestion || (one.fix ? "run this statement, then refresh" : "see the documentation of the plugin, then refresh"))}</p>
        ${one.fix && html`<div class="sql"><pre>${one.fix}</pre><${CopyButton} text=${one.fix} label="Copy fix" /></div>`}
      </div>
    </li>`,
  )}</ul>`;
}

/** @param {import("./assessment.js").Finding} one */
function where(one) {
  const name = [one.schema || one.database, one.table, one.column].filter(Boolean).join(".");
  return name ? `${name}: ` : "";
}
