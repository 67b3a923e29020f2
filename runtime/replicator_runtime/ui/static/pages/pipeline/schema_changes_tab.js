// @ts-check
/** Changes of structure that wait for a decision. */
import { html } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { session } from "../../core/session.js";
import { Empty, Loading } from "../../components/empty.js";
import { ProblemBox } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";
import { followed } from "../../actions/followed.js";
import { act } from "../../actions/ask.js";
import { decisionOn, whyNot } from "../../actions/actions.js";

/** @param {{ live: import("../../live/pipeline_live.js").PipelineLive }} props */
export default function SchemaChangesTab({ live }) {
  const waiting = live.item.value?.needsYou?.find((one) => one.reason === "decisions")?.count ?? 0;
  const ended = followed.value.filter((one) => ["done", "failed"].includes(one.state)).length;
  const found = useResource((signal) => request("GET", live.url("schemaChanges"), { signal }).then((answer) => answer.data), [live, waiting, ended]);
  if (found.problem) return html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (!found.data) return html`<${Loading} what="Changes are loaded" />`;
  const changes = found.data;
  if (changes.length === 0) {
    return html`<${Empty} title="Nothing waits for a decision">
      <p>With <code>"ddlPolicies": {"dropColumn": "ask"}</code> in the configuration a table waits here until you approve or reject the change. The kinds are columns, types, keys, truncated, renamed and dropped tables.</p></${Empty}>`;
  }
  return html`<ul class="cards">${changes.map((/** @type {any} */ change) => html`<${Change} key=${change.id} change=${change} live=${live} />`)}</ul>`;
}

/** @param {{ change: any, live: import("../../live/pipeline_live.js").PipelineLive }} props */
function Change({ change, live }) {
  const target = { namespace: live.namespace, name: live.name };
  const refused = whyNot({ role: "operator" }, session.value?.role);
  const only = change.onlyApproved || "";
  return html`<li class="panel">
    <h2><code>${change.name}</code>: ${change.text}</h2>
    <p class="muted">${change.operation}, at ${typeof change.position === "string" ? change.position : JSON.stringify(change.position)}, found <${Ago} at=${change.since} />. The table is paused; the others go on.</p>
    ${only && html`<p>It can only be approved: ${only}</p>`}
    <p class="actions">
      <button type="button" class="primary" disabled=${Boolean(refused)} title=${refused} onClick=${() => act(target, decisionOn(change, "approve"))}>Approve</button>
      <button type="button" disabled=${Boolean(refused || only)} title=${refused ?? (only || undefined)} onClick=${() => act(target, decisionOn(change, "reject"))}>Reject</button>
    </p>
  </li>`;
}
