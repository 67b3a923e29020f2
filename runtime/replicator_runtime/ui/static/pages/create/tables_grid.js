// @ts-check
import { html } from "../../core/html.js";
import { bytes, number } from "../../core/format.js";
import { DataTable } from "../../components/table.js";
import { tableName } from "./table_selection.js";

const CHANGES = [
  { key: "INSERT", letter: "I", label: "inserts" },
  { key: "UPDATE", letter: "U", label: "updates" },
  { key: "DELETE", letter: "D", label: "deletes" },
];

/**
 * The tables of the source with what is replicated of each.
 * @param {{tables: import("./table_selection.js").SourceTable[], selection: import("./table_selection.js").TableSelection, blacklist: string[],
 *   onSelect: (tables: import("./table_selection.js").SourceTable[], chosen: boolean) => void, onChanges: (table: any, blacklist: string[]) => void,
 *   onOpen: (table: any) => void, empty: any}} props
 */
export function TablesGrid({ tables, selection, blacklist, onSelect, onChanges, onOpen, empty }) {
  const chosen = tables.filter((table) => selection.selects(table)).length;
  const every = chosen === tables.length && tables.length > 0;
  const columns = [
    {
      key: "selected",
      width: "44px",
      label: html`<input type="checkbox" checked=${every} indeterminate=${chosen > 0 && !every} disabled=${tables.length === 0} aria-label="Select all shown tables" onChange=${() => onSelect(tables, !every)} />`,
      cell: (/** @type {any} */ table) => html`<input type="checkbox" checked=${selection.selects(table)} aria-label=${`Replicate ${tableName(table)}`} onChange=${(/** @type {any} */ event) => onSelect([table], event.target.checked)} />`,
    },
    { key: "name", width: "minmax(150px, 3fr)", label: "Table", cell: (/** @type {any} */ table) => html`<span title=${tableName(table)}>${tableName(table)}</span>` },
    {
      key: "columns",
      width: "96px",
      label: "Columns",
      cell: (/** @type {any} */ table) => {
        const entry = /** @type {any} */ (selection.of(table));
        const count = entry?.columns?.length;
        const text = count ? `${count} of ${table.numColumns}` : `All ${table.numColumns ?? ""}`.trim();
        return html`<button type="button" class="quiet small" disabled=${!entry} aria-label=${`${text} columns of ${tableName(table)}`} onClick=${() => onOpen(table)}>${text}</button>`;
      },
    },
    { key: "rows", width: "88px", align: /** @type {const} */ ("end"), label: html`<span title="About, as the source says">Rows</span>`, cell: (/** @type {any} */ table) => number(table.estimatedRows) },
    { key: "size", width: "84px", align: /** @type {const} */ ("end"), label: html`<span title="About, as the source says">Size</span>`, cell: (/** @type {any} */ table) => bytes(table.estimatedBytes) },
    { key: "changes", width: "116px", label: "Changes", cell: (/** @type {any} */ table) => html`<${Changes} table=${table} entry=${selection.of(table)} always=${blacklist} onChange=${onChanges} />` },
  ];
  const known = columns.filter((column) => (column.key !== "rows" || tables.some((one) => one.estimatedRows !== null && one.estimatedRows !== undefined)) && (column.key !== "size" || tables.some((one) => one.estimatedBytes)));
  return html`<${DataTable} label="Tables of the source" columns=${known} rows=${tables} rowKey=${(/** @type {any} */ table) => `${table.database} ${tableName(table)}`} empty=${empty} rowClass=${(/** @type {any} */ table) => (selection.selects(table) ? "" : "off")} />`;
}

/** @param {{table: any, entry: any, always: string[], onChange: (table: any, blacklist: string[]) => void}} props */
function Changes({ table, entry, always, onChange }) {
  const off = new Set(entry?.dmlBlacklist ?? []);
  const turn = (/** @type {string} */ key) => {
    const next = CHANGES.map((one) => one.key).filter((one) => (one === key ? !off.has(one) : off.has(one)));
    onChange(table, next);
  };
  return html`<span class="switches">${CHANGES.map((change) => {
    const on = !!entry && !off.has(change.key) && !always.includes(change.key);
    return html`<button key=${change.key} type="button" class="switch" aria-pressed=${String(on)} disabled=${!entry || always.includes(change.key)} title=${`${change.label}: ${on ? "replicated" : "left out"}`} aria-label=${`Replicate ${change.label} of ${tableName(table)}`} onClick=${() => turn(change.key)}>${change.letter}</button>`;
  })}</span>`;
}
