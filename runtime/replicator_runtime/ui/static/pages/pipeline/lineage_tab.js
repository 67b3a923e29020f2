// @ts-check
/** Which column of the target comes from which of the source. */
import { html, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { counted } from "../../core/format.js";
import { Empty, Loading } from "../../components/empty.js";
import { ProblemBox } from "../../components/problem.js";

/** @param {{ live: import("../../live/pipeline_live.js").PipelineLive }} props */
export default function LineageTab({ live }) {
  const [text, setText] = useState("");
  const found = useResource((signal) => request("GET", live.url("lineage"), { signal }).then((answer) => answer.data), [live]);
  if (found.problem) return html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (!found.data) return html`<${Loading} what="Lineage is loaded" />`;
  const tables = found.data;
  if (tables.length === 0) return html`<${Empty} title="No lineage yet"><p>It is known once tables are described, at the first start.</p></${Empty}>`;
  const wanted = text.trim().toLowerCase();
  const shown = tables.filter((/** @type {any} */ one) => !wanted || JSON.stringify(one).toLowerCase().includes(wanted));
  return html`
    <div class="toolbar"><label class="search"><span class="off-screen">Search tables and columns</span><input type="search" placeholder="Search tables and columns" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
      <span class="muted" role="status">${shown.length} of ${counted(tables.length, "table")}</span></div>
    ${shown.slice(0, 100).map((/** @type {any} */ one, /** @type {number} */ index) => html`<details class="panel lineage" key=${nameOf(one.source) + index} open=${shown.length <= 3}>
      <summary><code>${nameOf(one.source)}</code> <span aria-label="to">→</span> <code>${nameOf(one.target)}</code> <span class="muted">${counted((one.columns ?? []).length, "column")}</span></summary>
      <div class="scroll-x" tabindex="0" role="region" aria-label=${`Columns of ${nameOf(one.source)}`}><table class="plain"><thead><tr><th scope="col">At the source</th><th scope="col">Type</th><th scope="col">At the target</th><th scope="col">Type</th></tr></thead>
        <tbody>${(one.columns ?? []).map((/** @type {any} */ column, /** @type {number} */ at) => html`<tr key=${at}><td><code>${column.source ?? column.name ?? "–"}</code></td><td>${column.sourceType ?? ""}</td><td><code>${column.target ?? column.name ?? "–"}</code></td><td>${column.type ?? ""}</td></tr>`)}</tbody></table></div>
    </details>`)}
    ${shown.length > 100 && html`<p class="muted">and ${shown.length - 100} more: search for them</p>`}`;
}

/** @param {any} table */
const nameOf = (table) => [table?.namespace, table?.name].filter(Boolean).join("/");
