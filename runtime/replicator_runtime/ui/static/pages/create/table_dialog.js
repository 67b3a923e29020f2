// @ts-check
import { html, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { Dialog } from "../../components/dialog.js";
import { ProblemBox } from "../../components/problem.js";
import { Loading } from "../../components/empty.js";
import { CopyAs } from "../../components/copy_button.js";
import { Sample } from "./sample.js";
import { tableName } from "./table_selection.js";

/**
 * Which columns of a table are replicated, and a few of its rows.
 * @param {{table: import("./table_selection.js").SourceTable, entry: any, store: import("./draft_store.js").DraftStore, onClose: () => void, onChange: (change: any) => void}} props
 */
export function TableDialog({ table, entry, store, onClose, onChange }) {
  const { database, schema } = table;
  const url = `${store.url}/describeTable`;
  const named = { database: database ?? "", schema: schema ?? "", table: table.table };
  const found = useResource(async (signal) => /** @type {import("../../core/shapes.js").DescribedTable} */ ((await request("POST", url, { body: named, signal })).data), []);
  const [chosen, setChosen] = useState(/** @type {Set<string> | null} */ (entry?.columns ? new Set(entry.columns.map(columnName)) : null));
  const [search, setSearch] = useState("");
  const columns = found.data?.columns ?? [];
  const keys = new Set(found.data?.primaryKey ?? []);
  const has = (/** @type {string} */ name) => keys.has(name) || chosen === null || chosen.has(name);
  const turn = (/** @type {string} */ name) => {
    const next = new Set(columns.map((one) => one.name).filter((one) => (one === name ? !has(one) : has(one))));
    setChosen(next.size === columns.length ? null : next);
  };
  const save = () => {
    const before = new Map((entry?.columns ?? []).map((/** @type {any} */ one) => [columnName(one), one]));
    onChange({ columns: chosen === null ? undefined : columns.filter((one) => has(one.name)).map((one) => before.get(one.name) ?? { name: one.name }) });
    onClose();
  };
  const count = columns.filter((one) => has(one.name)).length;
  const actions = html`<span class="muted gap">${count} of ${columns.length} columns</span><button type="button" onClick=${onClose}>Cancel</button><button type="button" class="primary" disabled=${!found.data || count === 0} onClick=${save}>Apply</button>`;
  return html`<${Dialog} title=${`Columns of ${tableName(table)}`} onClose=${onClose} wide=${true} actions=${actions}>
    ${found.problem && html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`}
    ${found.loading && html`<${Loading} what="Describing the table" />`}
    ${found.data && html`<div class="row"><input type="search" class="narrow" aria-label="Search columns" placeholder="Search columns" value=${search} onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
        <button type="button" class="small" onClick=${() => setChosen(null)}>Select all</button><button type="button" class="small" onClick=${() => setChosen(new Set(keys))}>Key only</button>
        <${CopyAs} words=${["tables", `${store.name}.json`, tableName(table), "--columns"]} method="POST" url=${url} body=${named} /></div>
      <div class="scroll-x"><table class="plain"><thead><tr><th>Replicated</th><th>Column</th><th>Type</th><th>Nullable</th></tr></thead>
        <tbody>${columns.filter((one) => one.name.toLowerCase().includes(search.toLowerCase())).map(
          (one) => html`<tr key=${one.name}><td><input type="checkbox" checked=${has(one.name)} disabled=${keys.has(one.name)} aria-label=${`Replicate column ${one.name}`} onChange=${() => turn(one.name)} /></td>
            <td>${one.name}${keys.has(one.name) && html` <span class="count" title="Of the key: always replicated">key</span>`}</td><td><code>${one.type}</code></td><td>${one.nullable ? "yes" : "no"}</td></tr>`,
        )}</tbody></table></div>
      <${Sample} table=${table} store=${store} />`}
  </${Dialog}>`;
}

/** @param {any} column */
function columnName(column) {
  return typeof column === "string" ? column : column.name;
}
