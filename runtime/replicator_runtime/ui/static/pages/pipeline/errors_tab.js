// @ts-check
/** Errors by their code, with the next step; the rows that were put aside. */
import { html } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { counted, number } from "../../core/format.js";
import { Empty, Loading } from "../../components/empty.js";
import { CopyButton } from "../../components/copy_button.js";
import { ProblemBox, withCode } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";
import { act } from "../../actions/ask.js";
import { session } from "../../core/session.js";
import { effectOf, whyNot } from "../../actions/actions.js";
import { advised } from "./advised.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */
/** @typedef {import("../../live/shapes.js").Fault} Fault */
/** @typedef {{ code: string, message: string, hint: string, tables: string[], since: string | null, gone: boolean }} Group */

/** @param {{ live: PipelineLive }} props */
export default function ErrorsTab({ live }) {
  void live.tables.version.value;
  const groups = grouped(live);
  return html`
    ${groups.length === 0
      ? html`<${Empty} title="No errors"><p>Nothing fails now, and nothing was repaired in the last minutes. What runs have logged is in <a href="logs">Logs</a>.</p></${Empty}>`
      : html`<ul class="cards">${groups.map((group) => html`<${Found} key=${`${group.code}-${group.gone}`} group=${group} live=${live} />`)}</ul>`}
    <${PutAside} live=${live} />`;
}

/** @param {PipelineLive} live @returns {Group[]} */
function grouped(live) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  /** @param {Fault} fault @param {string} table @param {boolean} gone @param {string | null} since */
  const add = (fault, table, gone, since) => {
    const code = fault.code || "error";
    const key = `${gone ? 1 : 0}${code}`;
    const group = groups.get(key) ?? { code, message: fault.message, hint: fault.hint ?? "", tables: [], since, gone };
    if (table) group.tables.push(table);
    if (since && (!group.since || since < group.since)) group.since = since;
    groups.set(key, group);
  };
  const status = live.status.value ?? {};
  if (status["sourceError"]) add(status["sourceError"], "", false, status["updated"]);
  else if (status["lastError"]) add(status["lastError"], "", true, status["lastError"].at);
  for (const row of live.tables.rows.values()) {
    if (row.error) add(row.error, row.id, false, row.failingSince ?? null);
    else if (row.lastError) add(row.lastError, row.id, true, row.lastError.at ?? null);
  }
  return [...groups.entries()].sort(([a], [b]) => a.localeCompare(b)).map(([, group]) => group);
}

/** @param {{ group: Group, live: PipelineLive }} props */
function Found({ group, live }) {
  const target = { namespace: live.namespace, name: live.name };
  const step = group.gone ? null : advised(group.hint, live.item.value);
  const refused = step && whyNot(step, session.value?.role);
  const names = group.tables.map((id) => live.tables.rows.get(id)?.name ?? id);
  return html`<li class=${`panel error-group${group.gone ? " gone" : ""}`}>
    <h2><code>${group.code}</code> ${group.gone ? "repaired" : group.tables.length > 0 ? `in ${counted(group.tables.length, "table")}` : "of the source or the run"}
      ${group.since && html`<span class="muted"> ${group.gone ? "" : "began "}<${Ago} at=${group.since} /></span>`}</h2>
    <p>${withCode(group.message)}</p>
    ${group.hint && html`<p class="hint">Next: ${withCode(group.hint)}</p>`}
    ${names.length > 0 && html`<p class="table-names">${names.slice(0, 12).map((name) => html`<code key=${name}>${name}</code> `)}${names.length > 12 && `and ${number(names.length - 12)} more`}</p>`}
    <p class="actions">
      ${step && html`<button type="button" class="primary" disabled=${Boolean(refused)} title=${refused || effectOf(step, step.tables ? group.tables : [])} onClick=${() => act(target, step, step.tables ? group.tables : [])}>${step.label}</button>`}
      <${CopyButton} label="Copy error" text=${`${group.code}: ${group.message}${group.hint ? `\nNext: ${group.hint}` : ""}`} />
      ${group.code.startsWith("RPL-") && html`<${DocLink} code=${group.code} />`}
    </p>
  </li>`;
}

/** The error's page in the documentation. @param {{ code: string }} props */
const DocLink = ({ code }) => html`<span class="muted">More: <code>docs/errors.md#${code.toLowerCase()}</code></span>`;

/** @param {{ live: PipelineLive }} props */
function PutAside({ live }) {
  const aside = [...live.tables.rows.values()].some((row) => row.rowsPutAside);
  const found = useResource((signal) => (aside ? request("GET", `${live.url("deadLetters")}?limit=100`, { signal }).then((answer) => answer.data) : Promise.resolve([])), [live, aside]);
  if (!aside) return null;
  if (found.problem) return html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (!found.data) return html`<${Loading} what="Rows put aside are loaded" />`;
  const target = { namespace: live.namespace, name: live.name };
  /** @type {import("../../actions/actions.js").Action} */
  const replay = {
    id: "replay", label: "Copy again", role: "operator", asks: "yes", path: "deadLetters/replay", tables: "some", outcome: "request",
    effect: "Copies TABLES again, so that rows that were put aside arrive once their values are repaired at the source.",
    words: () => ["dead-letters", "replay", "FILE", "TABLES"],
  };
  return html`<section class="panel"><h2>Rows put aside</h2>
    <p class="muted">The target refuses a value of these rows, so it lacks them. Repair the value at the source, then copy the table again.</p>
    <div class="scroll-x" tabindex="0" role="region" aria-label="Rows put aside"><table class="plain"><thead><tr><th scope="col">Table</th><th scope="col">Code</th><th scope="col">Columns</th><th scope="col">Why</th><th scope="col">At</th><th scope="col"><span class="off-screen">Action</span></th></tr></thead>
      <tbody>${found.data.flatMap((/** @type {any} */ table) => {
        const row = rowOf(live, table.table);
        return table.letters.map((/** @type {any} */ one, /** @type {number} */ index) => html`<tr key=${`${row?.id}-${index}`}><td><code>${row?.name ?? table.table.table}</code></td><td><code>${one.code}</code></td><td>${(one.columns ?? []).join(", ")}</td><td>${one.reason}</td><td>${one.position ?? ""}</td>
        <td>${index === 0 && row && html`<button type="button" class="small" onClick=${() => act(target, replay, [row.id])}>Copy again…</button>`}</td></tr>`);
      })}</tbody></table></div>
  </section>`;
}

/** @param {PipelineLive} live @param {{ database: string, schema: string, table: string }} table */
const rowOf = (live, table) =>
  [...live.tables.rows.values()].find((row) => row.table === table.table && row.schema === table.schema && row.database === table.database);
