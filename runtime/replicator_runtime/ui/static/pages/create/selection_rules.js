// @ts-check
import { html, useId, useMemo, useState } from "../../core/html.js";
import { counted } from "../../core/format.js";
import { Icon } from "../../components/icons.js";
import { TableSelection, isPattern, tableName, typedEntry } from "./table_selection.js";

/**
 * The entries of `tables` that are patterns, tables named by hand, and what is excluded.
 * @param {{entries: any[], tables: any[], search: string, set: (entries: any[]) => void, newTables?: string}} props
 */
export function SelectionRules({ entries, tables, search, set, newTables }) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const id = useId();
  const schemas = tables.length === 0 || tables.some((table) => table.schema);
  const listed = useMemo(() => new Set(tables.map((table) => table.table)), [tables]);
  const special = entries.map((entry, at) => ({ entry, at })).filter(({ entry }) => isPattern(entry) || entry.exclude || !listed.has(entry.table));
  const all = new TableSelection(entries).selectsAll;
  const add = (/** @type {boolean} */ exclude) => {
    const entry = typedEntry(text, schemas);
    if (!entry) return setWrong("Write table, schema.table or database.schema.table; * and ? are allowed.");
    set([...entries.filter((one) => !(one.exclude && one.table === "*" && !one.schema && !one.database)), exclude ? { ...entry, exclude: true } : entry]);
    setText("");
    return setWrong("");
  };
  return html`<section class="panel stack" aria-label="Rules">
    <p>${all
      ? html`<strong>Every table is replicated${entries.length ? " but those excluded below" : ""}</strong>, ${newTables === "ignore" ? "not those that are created later." : "also those that are created later."}`
      : html`<strong>Only selected tables are replicated</strong>${entries.some((one) => isPattern(one) && !one.exclude) && newTables !== "ignore" ? ", and tables created later that fit a pattern." : "."}`}</p>
    <div class="field narrow">
      <label for=${id}>Add a name or a pattern</label>
      <div class="row nowrap"><input id=${id} class="mono" value=${text} placeholder=${search && /[*?]/.test(search) ? search : "sales.*"} spellcheck=${false} autocomplete="off" aria-invalid=${wrong ? "true" : undefined}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          if (text) add(false);
        }} />
        <button type="button" disabled=${!text} onClick=${() => add(false)}>Select</button><button type="button" disabled=${!text} onClick=${() => add(true)}>Exclude</button></div>
      ${wrong && html`<p class="wrong" role="alert"><${Icon} name="error" />${wrong}</p>`}
    </div>
    ${special.length > 0 && html`<ul class="rules">${special.slice(0, 200).map(
      ({ entry, at }) => html`<li key=${at}><span class=${entry.exclude ? "count bad" : "count good"}>${entry.exclude ? "exclude" : "select"}</span>
        <code>${tableName(entry)}</code><small>${matched(entry, tables)}</small>
        <button type="button" class="quiet small" aria-label=${`Remove ${entry.exclude ? "the exclusion of " : ""}${tableName(entry)}`} onClick=${() => set(entries.filter((_, index) => index !== at))}><${Icon} name="close" /></button></li>`,
    )}${special.length > 200 && html`<li class="muted">and ${special.length - 200} more, in the JSON</li>`}</ul>`}
  </section>`;
}

/** @param {any} entry @param {any[]} tables */
function matched(entry, tables) {
  const { exclude, ...rest } = entry;
  const one = new TableSelection([rest]);
  const count = tables.filter((table) => one.selects(table)).length;
  return count ? counted(count, "table") : tables.length ? "not among the listed tables" : "";
}
