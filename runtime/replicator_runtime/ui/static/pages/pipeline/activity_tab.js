// @ts-check
/** What was done and what happened, the newest first: requests, jobs, changes, schema changes. */
import { html, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { time } from "../../core/format.js";
import { StatusBadge } from "../../components/badge.js";
import { Empty, Loading } from "../../components/empty.js";
import { ProblemBox, withCode } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";
import { followed } from "../../actions/followed.js";
import { act } from "../../actions/ask.js";
import { readable, withdrawal } from "../../actions/actions.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */

const KINDS = { request: "Request", job: "Job", change: "Change", schemaChange: "Schema change", run: "Run" };

/** What was asked for over HTTP, in words. */
const CHANGES = {
  createPipeline: "The pipeline was created", putPipeline: "Its configuration was saved", deletePipeline: "It was to be deleted",
  startPipeline: "It was started", stopPipeline: "It was stopped", restartPipeline: "It was restarted", approvePlan: "A plan was approved",
  withdrawRequest: "A request was withdrawn",
};

/** Whether it is the question to an answer that has an entry of its own: a request or a job. @param {any} entry */
const isSaidBelow = (entry) => entry.kind === "change" && entry.state === "202" && !(entry.what in CHANGES);

/** @param {{ live: PipelineLive }} props */
export default function ActivityTab({ live }) {
  const ended = followed.value.filter((one) => ["done", "failed"].includes(one.state)).length;
  const [kind, setKind] = useState("");
  const found = useResource((signal) => request("GET", `${live.url("activity")}?limit=200`, { signal }).then((answer) => answer.data), [live, ended, live.item.value?.requestsWaiting ?? 0]);
  if (found.problem) return html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (!found.data) return html`<${Loading} what="Activity is loaded" />`;
  const all = found.data.filter((/** @type {any} */ one) => !isSaidBelow(one));
  const entries = all.filter((/** @type {any} */ one) => !kind || one.kind === kind);
  const kinds = [...new Set(all.map((/** @type {any} */ one) => one.kind))];
  return html`
    <div class="toolbar">
      <div class="chips" role="group" aria-label="Show entries by kind">${kinds.map((one) => html`<button key=${one} type="button" class="chip" aria-pressed=${kind === one} onClick=${() => setKind(kind === one ? "" : one)}>${KINDS[/** @type {keyof typeof KINDS} */ (one)] ?? one}</button>`)}</div>
      <span class="gap"></span><button type="button" class="small" onClick=${found.reload}>Refresh</button>
    </div>
    ${entries.length === 0
      ? html`<${Empty} title="Nothing yet"><p>What is asked for, changed and decided is listed here.</p></${Empty}>`
      : html`<ol class="timeline">${entries.map((/** @type {any} */ one, /** @type {number} */ index) => html`<${Entry} key=${one.id ?? index} entry=${one} live=${live} />`)}</ol>`}`;
}

/** How it ended; of a change the HTTP status says it. @param {{ state: string }} props */
function Outcome({ state }) {
  const status = Number(state);
  if (!Number.isNaN(status)) return html`<${StatusBadge} state=${status < 400 ? "done" : "failed"} label=${status < 400 ? "accepted" : `refused (${status})`} />`;
  return html`<${StatusBadge} state=${{ refused: "failed", withdrawn: "cancelled" }[state] ?? state} label=${state} />`;
}

/** @param {{ entry: any, live: PipelineLive }} props */
function Entry({ entry, live }) {
  const kind = KINDS[/** @type {keyof typeof KINDS} */ (entry.kind)] ?? entry.kind;
  return html`<li>
    <div class="timeline-head"><span class="kind">${kind}</span> <strong>${readable(CHANGES[/** @type {keyof typeof CHANGES} */ (entry.what)] ?? entry.what)}</strong>
      ${entry.state && html`<${Outcome} state=${entry.state} />`}<span class="gap"></span><${Ago} at=${entry.at} /></div>
    ${entry.text && html`<p>${withCode(entry.text)}</p>`}
    ${entry.hint && html`<p class="hint">Next: ${withCode(entry.hint)}</p>`}
    <p class="muted">${[entry.by && `by ${entry.by}`, time(entry.at), ...(entry.tables ?? []).slice(0, 5).map(readable)].filter(Boolean).join(" · ")}</p>
    ${entry.kind === "request" && entry.state === "waiting" && html`<button type="button" class="small"
      onClick=${() => act({ namespace: live.namespace, name: live.name }, withdrawal(entry.id))}>Withdraw</button>`}
  </li>`;
}
