// @ts-check
import { html, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { DataTable } from "../../components/table.js";
import { CopyAs } from "../../components/copy_button.js";
import { Dialog } from "../../components/dialog.js";
import { StatusBadge } from "../../components/badge.js";
import { ProblemBox } from "../../components/problem.js";
import { Loading } from "../../components/empty.js";
import { TableSelection, tableName, withTableSettings } from "./table_selection.js";

/**
 * The assessed tables; each opens the mapping of its columns.
 * @param {{tables: import("./assessment.js").AssessedTable[], store: import("./draft_store.js").DraftStore}} props
 */
export function AssessedTables({ tables, store }) {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const columns = [
    { key: "table", label: "Table", width: "minmax(150px, 3fr)", cell: (/** @type {any} */ one) => html`<span title=${tableName(one)}>${tableName(one)}</span>` },
    { key: "columns", label: "Columns", width: "92px", align: /** @type {const} */ ("end"), cell: (/** @type {any} */ one) => one.numColumns },
    { key: "changed", label: "Changed", width: "90px", align: /** @type {const} */ ("end"), cell: (/** @type {any} */ one) => (one.numColumnsPartiallySupported ? html`<span class="count warn">${one.numColumnsPartiallySupported}</span>` : "0") },
    { key: "lost", label: "Lost", width: "64px", align: /** @type {const} */ ("end"), cell: (/** @type {any} */ one) => (one.numColumnsNotSupported ? html`<span class="count bad">${one.numColumnsNotSupported}</span>` : "0") },
    { key: "mapping", label: "Types", width: "142px", cell: (/** @type {any} */ one) => html`<button type="button" class="quiet small" aria-label=${`View mapping of ${tableName(one)}`} onClick=${() => setShown(one)}>View mapping</button>` },
  ];
  return html`<${DataTable} label="Assessed tables" columns=${columns} rows=${tables} rowKey=${tableName} />
    ${shown && html`<${MappingDialog} table=${shown} store=${store} onClose=${() => setShown(null)} />`}`;
}

/** @param {{table: any, store: import("./draft_store.js").DraftStore, onClose: () => void}} props */
function MappingDialog({ table, store, onClose }) {
  const config = store.config.value;
  const entries = Array.isArray(config.tables) ? config.tables : [];
  const entry = /** @type {any} */ (new TableSelection(entries).of(table));
  const kept = (/** @type {string} */ name) => !entry?.columns || entry.columns.some((/** @type {any} */ one) => (typeof one === "string" ? one : one.name) === name);
  const leaveOut = (/** @type {string} */ name) => {
    const names = (found.data?.columns ?? []).map((one) => one.sourceName).filter((/** @type {string} */ one) => one !== name && kept(one));
    store.edit({ ...config, tables: withTableSettings(entries, table, { columns: names.map((/** @type {string} */ one) => ({ name: one })) }) });
  };
  const url = `${store.url}/assessTable`;
  const named = { database: table.database ?? "", schema: table.schema ?? "", table: table.table };
  const found = useResource(async (signal) => /** @type {import("../../core/shapes.js").TableAssessment} */ ((await request("POST", url, { body: named, signal })).data), []);
  return html`<${Dialog} title=${`Mapping of ${tableName(table)}`} onClose=${onClose} wide=${true}>
    <${CopyAs} words=${["assess", `${store.name}.json`]} method="POST" url=${url} body=${named} />
    ${found.problem && html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`}
    ${found.loading && html`<${Loading} what="Reading how its columns arrive" />`}
    ${found.data && html`<div class="scroll-x"><table class="plain"><thead><tr><th>Column</th><th>Type at the source</th><th>Type at the target</th><th>Arrives</th><th>What is lost</th></tr></thead>
      <tbody>${found.data.columns.map(
        (one) => html`<tr key=${one.sourceName}><td>${one.sourceName}${one.targetName && one.targetName !== one.sourceName && html`<br /><small>as ${one.targetName}</small>`}</td><td><code>${one.sourceType}</code></td><td><code>${one.targetType || "–"}</code></td>
          <td><${StatusBadge} state=${one.support} label=${LABELS[one.support] ?? one.support} /></td><td>${one.suggestion?.message ?? one.suggestion?.details?.message ?? (one.support === "YES" ? "nothing" : "")}
            ${one.support === "NO" && (kept(one.sourceName) ? html`<br /><button type="button" class="small" onClick=${() => leaveOut(one.sourceName)}>Leave this column out</button>` : html`<br /><small>left out now: refresh the assessment</small>`)}</td></tr>`,
      )}</tbody></table></div>`}
  </${Dialog}>`;
}

/** @type {Record<string, string>} */
const LABELS = { YES: "whole", PARTIAL: "changed", NO: "lost" };
