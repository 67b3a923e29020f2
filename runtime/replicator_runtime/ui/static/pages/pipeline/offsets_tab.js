// @ts-check
/** Saved offsets, and the way back to one of them: its plan first, then the pipeline's name. */
import { html, useId, useState } from "../../core/html.js";
import { context, newKey, request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { session } from "../../core/session.js";
import { counted, number } from "../../core/format.js";
import { Empty, Loading } from "../../components/empty.js";
import { CopyAs } from "../../components/copy_button.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { ProblemBox } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";
import { whyNot } from "../../actions/actions.js";
import { answerOf } from "../../actions/ask.js";
import { follow } from "../../actions/followed.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */
/** @typedef {{ body: Record<string, unknown>, plan: any }} Planned */

/** @param {{ live: PipelineLive }} props */
export default function OffsetsTab({ live }) {
  const [limit, setLimit] = useState(50);
  const [planned, setPlanned] = useState(/** @type {Planned | null} */ (null));
  const found = useResource((signal) => request("GET", `${live.url("offsets")}?limit=${limit}`, { signal }).then((answer) => answer.data), [live, limit, live.status.value?.["offset"] ?? ""]);
  const refused = whyNot({ role: "admin" }, session.value?.role) ?? (["running", "stopping"].includes(live.item.value?.state ?? "") ? "Stop the pipeline first: a rewind is refused while a run goes on." : undefined);
  /** @param {Record<string, unknown>} body */
  const plan = (body) =>
    follow("Plan of a rewind", () => send(live, { ...body, planOnly: true }), (job) => {
      const data = job["result"]?.data;
      if (data?.tables) setPlanned({ body, plan: data });
    });
  if (found.problem) return html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (!found.data) return html`<${Loading} what="Offsets are loaded" />`;
  if (found.data.length === 0) return html`<${Empty} title="No offset was saved yet"><p>The first one is saved when the first batch is at the target.</p></${Empty}>`;
  return html`
    <p class="muted">The newest one is where the next start goes on. A rewind brings the target's tables back together with the offset; only Delta keeps earlier versions for it.</p>
    <${ByTime} refused=${refused} plan=${plan} />
    <div class="scroll-x panel tight" tabindex="0" role="region" aria-label="Saved offsets"><table class="plain">
      <thead><tr><th scope="col">Saved</th><th scope="col">Offset</th><th scope="col" class="end">Sequence</th><th scope="col"><span class="off-screen">Action</span></th></tr></thead>
      <tbody>${found.data.map((/** @type {any} */ one, /** @type {number} */ index) => html`<tr key=${one.name}>
        <td><${Ago} at=${one.savedAt} /></td><td><code title=${one.name}>${one.offset ?? one.problem}</code></td><td class="end">${number(one.sequenceNumber)}</td>
        <td>${index === 0 ? html`<span class="muted">current</span>` : html`<button type="button" class="small" disabled=${Boolean(refused) || Boolean(one.problem)} title=${refused} aria-label=${`Rewind to ${one.offset ?? one.name}`} onClick=${() => plan({ offset: one.name })}>Rewind…</button>`}</td>
      </tr>`)}</tbody></table></div>
    ${found.data.length >= limit && html`<p><button type="button" onClick=${() => setLimit(limit * 4)}>Show earlier ones</button></p>`}
    ${planned && html`<${Plan} live=${live} ...${planned} onClose=${() => setPlanned(null)} />`}`;
}

/** @param {PipelineLive} live @param {Record<string, unknown>} body */
async function send(live, body) {
  const { data } = await request("POST", live.url("offsets", "rewind"), { body, key: newKey() });
  return answerOf({ namespace: live.namespace, name: live.name }, data);
}

/** @param {{ refused: string | undefined, plan: (body: Record<string, unknown>) => void }} props */
function ByTime({ refused, plan }) {
  const [text, setText] = useState("");
  const id = useId();
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text) plan({ time: new Date(`${text}Z`).toISOString() });
  };
  return html`<form class="row by-time" onSubmit=${submit}>
    <label for=${id}>Rewind to a time (UTC)</label>
    <input id=${id} type="datetime-local" step="1" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
    <button type="submit" disabled=${Boolean(refused) || !text} title=${refused}>Show the plan</button>
    ${refused && html`<span class="muted">${refused}</span>`}
  </form>`;
}

/** @param {Planned & { live: PipelineLive, onClose: () => void }} props */
function Plan({ live, body, plan, onClose }) {
  const words = ["rewind", `${live.name}.json`, ...(body["offset"] ? ["--offset", String(body["offset"])] : ["--time", String(body["time"])]), "--yes"];
  const confirm = () => {
    onClose();
    void follow(`Rewind: ${live.name}`, () => send(live, body));
  };
  const effect = `The target's tables lose what came after ${plan.offset}; the next run reads about ${number(plan.repeatedChanges)} changes again from the log. Offsets saved later are deleted.`;
  return html`<${ConfirmDialog} title=${`Rewind to ${plan.offset}`} effect=${effect} action="Rewind" typed=${live.name} onConfirm=${confirm} onClose=${onClose}>
    <div class="scroll-x" tabindex="0" role="region" aria-label="Plan of the rewind"><table class="plain"><caption class="off-screen">${counted(plan.tables.length, "table")}</caption>
      <thead><tr><th scope="col">Table</th><th scope="col">Position</th><th scope="col">Goes back to</th><th scope="col">What</th><th scope="col" class="end">Rows</th><th scope="col" class="end">Rows then</th></tr></thead>
      <tbody>${plan.tables.map((/** @type {any} */ one) => html`<tr key=${one.table}><td><code>${one.table}</code></td><td><code>${one.position ?? "–"}</code></td><td><code>${one.goesBackTo ?? "–"}</code></td><td>${one.what}</td><td class="end">${number(one.rows)}</td><td class="end">${number(one.rowsThen)}</td></tr>`)}</tbody></table></div>
    <${CopyAs} words=${words} method="POST" url=${context(live.namespace, "pipelines", live.name, "offsets", "rewind")} body=${body} />
  </${ConfirmDialog}>`;
}
