// @ts-check
import { html, useEffect, useRef, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { may } from "../../core/session.js";
import { asProblem } from "../../core/resource.js";
import { counted } from "../../core/format.js";
import { CopyAs } from "../../components/copy_button.js";
import { ProblemBox } from "../../components/problem.js";
import { tableName } from "./table_selection.js";

const ROWS = 10;

/**
 * A few rows of a table, once they are asked for. They are in this component alone, and gone when it is closed.
 * @param {{table: import("./table_selection.js").SourceTable, store: import("./draft_store.js").DraftStore}} props
 */
export function Sample({ table, store }) {
  const [found, setFound] = useState(/** @type {import("../../core/shapes.js").TableSample | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const control = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => control.current?.abort(), []);
  if (!may("admin")) return html`<p class="muted">An admin can look at a few rows of the table here.</p>`;
  const url = `${store.url}/sampleTable`;
  const body = { database: table.database ?? "", schema: table.schema ?? "", table: table.table, rows: ROWS };
  const ask = async () => {
    control.current?.abort();
    const asked = (control.current = new AbortController());
    setBusy(true);
    setProblem(null);
    try {
      await store.save();
      const { data } = await request("POST", url, { body, signal: asked.signal });
      if (!asked.signal.aborted) setFound(data);
    } catch (error) {
      if (!asked.signal.aborted) setProblem(asProblem(error));
    }
    if (!asked.signal.aborted) setBusy(false);
  };
  return html`<section class="stack sample" aria-label=${`Rows of ${tableName(table)}`}>
    <div class="row"><button type="button" class="small" disabled=${busy} onClick=${ask}>${busy ? "Reading rows…" : found ? "Read again" : `Show ${ROWS} rows`}</button>
      <${CopyAs} words=${["tables", `${store.name}.json`, tableName(table), "--rows", String(ROWS)]} method="POST" url=${url} body=${body} /></div>
    <p class="muted">Rows are read from the source now, with the selected columns, shown here only, and kept nowhere.</p>
    ${problem && html`<${ProblemBox} problem=${problem} title="No rows can be shown" />`}
    ${found && !problem && html`<${Rows} found=${found} />`}
  </section>`;
}

/** @param {{found: import("../../core/shapes.js").TableSample}} props */
function Rows({ found }) {
  const cut = new Set(found.cut.map(([row, column]) => `${row} ${column}`));
  const cell = (/** @type {string | null} */ text, /** @type {string} */ place) =>
    text === null ? html`<span class="muted">NULL</span>` : html`<span class="value">${text}${cut.has(place) && html`<span title="Longer at the source">…</span>`}</span>`;
  return html`<p role="status">${found.rows.length === 0 ? "No row is selected." : counted(found.rows.length, "row")}</p>
    ${found.rows.length > 0 && html`<div class="scroll-x" tabindex="0" role="region" aria-label="Rows"><table class="plain"><thead><tr>${found.columns.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
      <tbody>${found.rows.map((row, at) => html`<tr key=${at}>${row.map((text, column) => html`<td>${cell(text, `${at} ${column}`)}</td>`)}</tr>`)}</tbody></table></div>`}`;
}
