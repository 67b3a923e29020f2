// @ts-check
import { html } from "../../core/html.js";
import { here } from "../../core/router.js";
import { Icon } from "../../components/icons.js";
import { STEPS } from "./steps.js";

/**
 * The steps as links; those that are complete are marked.
 * @param {{name: string, shown: string, complete: Record<string, boolean>}} props
 */
export function Stepper({ name, shown, complete }) {
  return html`<nav class="stepper" aria-label="Steps">
    <ol>
      ${STEPS.map((step, index) => {
        const inner = html`<span class="step-sign">${complete[step.key] && step.key !== shown ? html`<${Icon} name="ok" label="Complete" />` : index + 1}</span><span class="step-label">${step.label}</span>`;
        return html`<li key=${step.key} class=${complete[step.key] ? "complete" : ""}>
          ${name ? html`<a href=${here("create", name, step.key)} aria-current=${step.key === shown ? "step" : undefined} title=${step.label}>${inner}</a>` : html`<span class="step" aria-current=${step.key === shown ? "step" : undefined}>${inner}</span>`}
        </li>`;
      })}
    </ol>
  </nav>`;
}
