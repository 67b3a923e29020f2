// @ts-check
/** What an edit of the configuration does at the next start, and the approval of what can not be taken back. */
import { html } from "../../core/html.js";
import { newKey, request } from "../../core/api.js";
import { session } from "../../core/session.js";
import { counted } from "../../core/format.js";
import { withCode } from "../../components/problem.js";
import { CopyAs } from "../../components/copy_button.js";
import { whyNot } from "../../actions/actions.js";
import { follow } from "../../actions/followed.js";

/** @param {{ plan: any, live: import("../../live/pipeline_live.js").PipelineLive, edited: boolean }} props */
export function PlanView({ plan, live, edited }) {
  const steps = plan.steps ?? [];
  const refused = whyNot({ role: "admin" }, session.value?.role);
  const approve = () =>
    follow(`Approve plan ${plan.plan}`, async () => {
      await request("POST", live.url("approvals"), { body: { plan: plan.plan }, key: newKey() });
      return { url: null, text: "approved; the next start applies it" };
    });
  return html`<section class="panel stack" aria-label="Plan">
    <h2>Plan ${plan.plan && html`<code>${plan.plan}</code>`}</h2>
    ${steps.length === 0
      ? html`<p>${plan.isFirst ? "The pipeline has not run yet: its first start copies every table." : "Nothing differs from what the last run left: the next start goes on."}</p>`
      : html`<ul class="plan">${steps.map((/** @type {any} */ step, /** @type {number} */ index) => html`<${Step} key=${index} step=${step} />`)}</ul>`}
    ${plan.error && !plan.needsApproval && html`<div class="note bad"><div><p><code>${plan.error.code}</code> ${withCode(plan.error.message)}</p>${plan.error.hint && html`<p>Next: ${withCode(plan.error.hint)}</p>`}</div></div>`}
    ${plan.needsApproval && html`<div class="row"><p>${counted(steps.filter((/** @type {any} */ one) => one.needsApproval).length, "step")} to approve: the next start is refused until an admin does.</p>
      <button type="button" class="primary" disabled=${Boolean(refused) || edited} title=${refused ?? (edited ? "Save the edit first" : "")} onClick=${approve}>Approve this plan</button>
      <${CopyAs} words=${["approve", live.name, plan.plan]} method="POST" url=${live.url("approvals")} body=${{ plan: plan.plan }} /></div>`}
  </section>`;
}

/** @param {{ step: any }} props */
function Step({ step }) {
  const verdict = step.refused ? "Refused" : step.needsApproval ? "To approve" : "Safe";
  return html`<li><p><span class=${`verdict ${step.refused ? "bad" : step.needsApproval ? "warn" : "good"}`}>${verdict}</span> <code>${step.subject}</code>: ${step.change} ${step.code && html`<code>${step.code}</code>`}</p>
    <dl class="facts">
      <dt>Effect</dt><dd>${withCode(step.effect ?? "")}</dd>
      ${step.cost?.text && html`<dt>Cost</dt><dd>${step.cost.text}</dd>`}
      ${step.reason && html`<dt>Why</dt><dd>${step.reason}</dd>`}
      ${step.suggestion && html`<dt>Next</dt><dd>${withCode(step.suggestion)}</dd>`}
    </dl></li>`;
}
