// @ts-check
import { html, useEffect, useMemo, useState } from "../../core/html.js";
import { counted } from "../../core/format.js";
import { ProblemBox } from "../../components/problem.js";
import { Empty, Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { CopyAs } from "../../components/copy_button.js";
import { TableSelection, fits, isNothing, isPattern, tableName, withTables, withTableSettings } from "./table_selection.js";
import { TablesGrid } from "./tables_grid.js";
import { TableDialog } from "./table_dialog.js";
import { SelectionRules } from "./selection_rules.js";
import { pluginOf } from "./config_edits.js";
import { useSourceTables } from "./source_tables.js";
import { FirstCopy } from "./estimate.js";

/** @typedef {import("./table_selection.js").SourceTable} SourceTable */

/**
 * Step 3: which tables, which columns, which changes.
 * @param {{store: import("./draft_store.js").DraftStore, config: any, edit: (config: any) => void, control: import("./wizard.js").StepControl}} props
 */
export function TablesStep({ store, config, edit, control }) {
  const source = pluginOf(config, "cdcSource");
  const list = useSourceTables(store, config);
  const entries = Array.isArray(config.tables) ? config.tables : [];
  const nothing = entries.some(isNothing) && !entries.some((/** @type {any} */ one) => !one.exclude);
  useEffect(() => control.block(nothing ? "Select at least one table." : ""), [nothing]);
  const set = (/** @type {any[]} */ tables) => edit({ ...config, tables });
  const { refresh } = list;
  if (!source) return html`<${Empty} title="No source yet"><p>Configure the source first: its tables are listed here.</p></${Empty}>`;
  return html`<div class="stack">
    ${list.problem && html`<${ProblemBox} problem=${list.problem} retry=${refresh} title="The tables cannot be listed" />
      <p class="muted">Tables can be named below all the same; the assessment looks at them.</p>`}
    ${list.loading && !list.data ? html`<${Loading} what="Reading the tables of the source" />` : html`<${Chooser} tables=${list.data ?? []} entries=${entries} set=${set} store=${store} refresh=${refresh} config=${config} />`}
  </div>`;
}

/** @param {{tables: SourceTable[], entries: any[], set: (entries: any[]) => void, store: any, refresh: () => void, config: any}} props */
function Chooser({ tables, entries, set, store, refresh, config }) {
  const [search, setSearch] = useState("");
  const [only, setOnly] = useState("all");
  const [shownTable, setShownTable] = useState(/** @type {SourceTable | null} */ (null));
  const selection = useMemo(() => new TableSelection(entries), [entries]);
  const chosen = useMemo(() => tables.filter((table) => selection.selects(table)), [tables, selection]);
  const shown = useMemo(() => tables.filter((table) => found(table, search) && (only === "all" || selection.selects(table) === (only === "selected"))), [tables, search, only, only === "all" ? null : selection]);
  const url = `${store.url}/listTables`;
  return html`<div class="row toolbar">
      <label class="search"><${Icon} name="search" /><span class="off-screen">Search tables</span><input type="search" value=${search} placeholder="Search, or a pattern: sales.*" spellcheck=${false} autocomplete="off" onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} onKeyDown=${noSubmit} /></label>
      <label class="inline"><span class="off-screen">Shown tables</span><select value=${only} onChange=${(/** @type {any} */ event) => setOnly(event.target.value)}><option value="all">All tables</option><option value="selected">Selected</option><option value="other">Not selected</option></select></label>
      <span class="muted numbers" role="status">${counted(chosen.length, "table")} of ${tables.length.toLocaleString("en")} selected${shown.length !== tables.length ? `, ${shown.length.toLocaleString("en")} shown` : ""}</span>
      <span class="gap"></span>
      <${CopyAs} words=${["tables", `${store.name}.json`]} method="POST" url=${url} />
      <button type="button" class="quiet small" onClick=${refresh}><${Icon} name="refresh" />Refresh</button>
    </div>
    <${TablesGrid} tables=${shown} selection=${selection} blacklist=${config.dmlBlacklist ?? []}
      onSelect=${(/** @type {SourceTable[]} */ some, /** @type {boolean} */ on) => set(bulk(entries, some, tables, on))}
      onChanges=${(/** @type {SourceTable} */ table, /** @type {string[]} */ dmlBlacklist) => set(withTableSettings(entries, table, { dmlBlacklist }))}
      onOpen=${setShownTable}
      empty=${html`<p class="padded muted">${tables.length === 0 ? "The source lists no tables. Grant SELECT to its user, or name tables below." : "No table fits what is searched."}</p>`} />
    <${FirstCopy} tables=${chosen} />
    <${SelectionRules} entries=${entries} tables=${tables} search=${search} set=${set} newTables=${config.newTables} />
    ${shownTable && html`<${TableDialog} key=${tableName(shownTable)} table=${shownTable} entry=${selection.of(shownTable)} store=${store} onClose=${() => setShownTable(null)}
      onChange=${(/** @type {any} */ change) => set(withTableSettings(entries, shownTable, change))} />`}`;
}

/** @param {KeyboardEvent} event */
function noSubmit(event) {
  if (event.key === "Enter") event.preventDefault();
}

/** @param {SourceTable} table @param {string} search */
function found(table, search) {
  const text = search.trim().toLowerCase();
  if (!text) return true;
  const name = tableName(table).toLowerCase();
  return /[*?]/.test(text) ? fits(text, name) || fits(text, table.table.toLowerCase()) : name.includes(text);
}

/**
 * Selecting everything needs no entry; selecting nothing one.
 * @param {any[]} entries
 * @param {SourceTable[]} some
 * @param {SourceTable[]} every
 * @param {boolean} on
 */
function bulk(entries, some, every, on) {
  if (some.length > 1 && some.length === every.length) {
    const kept = entries.filter((entry) => !entry.exclude && !isPattern(entry) && (entry.columns || entry.dmlBlacklist || entry.where));
    if (on) return kept.length ? [...kept, { table: "*" }] : [];
    return [{ table: "*", exclude: true }];
  }
  return withTables(entries, some, on);
}
