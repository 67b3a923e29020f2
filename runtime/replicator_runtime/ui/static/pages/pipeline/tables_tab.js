// @ts-check
/**
 * The tables of a pipeline: found, filtered, sorted, chosen, and acted upon.
 *
 * Of 10,000 tables those in view exist. A cell follows its table alone; the list is sorted again at most once a second.
 */
import { html, signal, useEffect, useMemo, useRef } from "../../core/html.js";
import { setQuery } from "../../core/router.js";
import { counted, number } from "../../core/format.js";
import { DataTable } from "../../components/table.js";
import { Empty, Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { narrow, wide } from "../../live/narrow.js";
import { TABLE_STATES } from "../../live/states.js";
import { act, menuItems } from "../../actions/ask.js";
import { suitingTables } from "../../actions/suiting.js";
import { whyNot } from "../../actions/actions.js";
import { session } from "../../core/session.js";
import { openMenu } from "../../parts/menu.js";
import { columnsOf } from "./table_columns.js";
import { TableDetails } from "./table_details.js";
import { ORDERS, orderedKeys } from "./table_order.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */

/** @param {{ live: PipelineLive, query: URLSearchParams }} props */
export default function TablesTab({ live, query }) {
  const selected = useMemo(() => signal(/** @type {ReadonlySet<string>} */ (new Set())), [live]);
  const detail = useMemo(() => signal(/** @type {string | null} */ (null)), [live]);
  const shown = useMemo(() => signal(/** @type {string[]} */ ([])), [live]);
  const text = query.get("search") ?? "";
  const state = query.get("state") ?? "";
  const order = query.get("order") ?? "needs";
  const keys = useKeys(live, text, state, order);
  shown.value = keys;
  if (!live.tablesLoaded.value && live.tables.rows.size === 0) return html`<${Loading} what="Tables are loaded" />`;
  if (live.tables.rows.size === 0) {
    return html`<${Empty} title="No tables yet"><p>A run lists the tables that the configuration selects. ${live.item.value?.wanted === "stopped" ? "Start the pipeline." : "They are shown here as soon as it has."}</p></${Empty}>`;
  }
  return html`
    <${Toolbar} live=${live} text=${text} state=${state} order=${order} shown=${keys.length} />
    <${Chosen} live=${live} selected=${selected} />
    <${Rows} live=${live} keys=${keys} shown=${shown} selected=${selected} detail=${detail} order=${order} />
    ${detail.value && html`<${TableDetails} live=${live} name=${detail.value} onClose=${() => (detail.value = null)} />`}`;
}

/**
 * The keys in order; the same array as long as the order is the same.
 * @param {PipelineLive} live @param {string} text @param {string} state @param {string} order
 */
function useKeys(live, text, state, order) {
  const last = useRef(/** @type {string[]} */ ([]));
  void live.tables.version.value;
  const keys = orderedKeys(live.tables.rows.values(), text, state, order);
  const same = keys.length === last.current.length && keys.every((key, index) => key === last.current[index]);
  if (!same) last.current = keys;
  return last.current;
}

/** @param {{ live: PipelineLive, text: string, state: string, order: string, shown: number }} props */
function Toolbar({ live, text, state, order, shown }) {
  void live.tables.version.value;
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const row of live.tables.rows.values()) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  const all = live.tables.rows.size;
  return html`<div class="toolbar">
    <label class="search"><${Icon} name="search" /><span class="off-screen">Search tables</span>
      <input type="search" placeholder="Search tables" value=${text} onInput=${(/** @type {any} */ event) => setQuery({ search: event.target.value })} /></label>
    <div class="chips" role="group" aria-label="Show tables by state">
      ${TABLE_STATES.filter((one) => counts.has(one.id) || state === one.id).map(
        (one) => html`<button key=${one.id} type="button" class="chip" aria-pressed=${state === one.id}
          onClick=${() => setQuery({ state: state === one.id ? null : one.id })}>${one.word} <span class="count">${number(counts.get(one.id) ?? 0)}</span></button>`,
      )}
    </div>
    <label class="sort-by"><span>Order</span>
      <select value=${order} onChange=${(/** @type {any} */ event) => setQuery({ order: event.target.value })}>
        ${ORDERS.map((one) => html`<option key=${one.key} value=${one.key}>${one.label}</option>`)}
      </select></label>
    <span class="muted" role="status">${shown === all ? counted(all, "table") : `${number(shown)} of ${counted(all, "table")}`}</span>
  </div>`;
}

/** What is chosen, and what can be done to it. @param {{ live: PipelineLive, selected: any }} props */
function Chosen({ live, selected }) {
  const keys = [...selected.value].filter((key) => live.tables.rows.has(key));
  if (keys.length === 0) return html`<p class="muted chosen-hint">Choose tables to act on several at once; <kbd>↑</kbd> <kbd>↓</kbd> move between rows.</p>`;
  const target = { namespace: live.namespace, name: live.name };
  const actions = suitingTables(keys.map((key) => live.tables.rows.get(key)));
  return html`<div class="chosen" role="group" aria-label="Actions for the chosen tables">
    <strong>${counted(keys.length, "table")} chosen</strong>
    ${actions.map((action) => {
      const refused = whyNot(action, session.value?.role);
      return html`<button key=${action.id} type="button" class="small" disabled=${Boolean(refused)} title=${refused} onClick=${() => act(target, action, keys)}>${action.label}</button>`;
    })}
    <button type="button" class="quiet small" onClick=${() => (selected.value = new Set())}>Choose none</button>
  </div>`;
}

/** @param {{ live: PipelineLive, keys: string[], shown: any, selected: any, detail: any, order: string }} props */
function Rows({ live, keys, shown, selected, detail, order }) {
  const anchor = useRef("");
  const columns = useMemo(() => {
    /** @param {string} key @param {boolean} range */
    const toggle = (key, range) => {
      const next = new Set(selected.peek());
      const list = shown.peek();
      const [from, to] = [list.indexOf(anchor.current), list.indexOf(key)];
      if (range && from >= 0 && to >= 0) list.slice(Math.min(from, to), Math.max(from, to) + 1).forEach((/** @type {string} */ one) => next.add(one));
      else if (!next.delete(key)) next.add(key);
      anchor.current = key;
      selected.value = next;
    };
    /** @param {string} key @param {DOMRect} at */
    const menu = (key, at) => {
      const row = live.tables.rows.get(key);
      const target = { namespace: live.namespace, name: live.name };
      const show = { label: "Details", run: () => (detail.value = key) };
      openMenu([show, ...menuItems(target, suitingTables([row]), [key])], at, `Actions for ${row?.name ?? key}`);
    };
    const toggleAll = () => (selected.value = shown.peek().every((/** @type {string} */ key) => selected.peek().has(key)) ? new Set() : new Set(shown.peek()));
    return columnsOf({ live, shown, selected, toggle, toggleAll, menu, open: (/** @type {string} */ key) => (detail.value = key) }, narrow.value, wide.value);
  }, [live, narrow.value, wide.value]);
  useEffect(() => {
    // Signals of rows that have not been in view for long are given up.
    const timer = setInterval(() => live.tables.keepOnly(new Set(visible())), 30_000);
    return () => clearInterval(timer);
  }, [live]);
  return html`<div class="tables-grid" onKeyDown=${moveByArrows}>
    <${DataTable} label="Tables" columns=${columns} rows=${keys} rowKey=${(/** @type {string} */ key) => key}
      rowHeight=${narrow.value ? 84 : 40} tall="tables-tall" sort=${ORDERS.find((one) => one.key === order)?.sort} onSort=${(/** @type {string} */ key) => setQuery({ order: key })}
      empty=${html`<p class="none-found">No table is like that. <button type="button" class="small" onClick=${() => setQuery({ search: null, state: null })}>Show all</button></p>`} />
  </div>`;
}

/** The keys of the rows that exist. */
const visible = () => [...document.querySelectorAll("[data-table]")].map((one) => one.getAttribute("data-table") ?? "");

/**
 * Up and down move to the same control of the next row, which exists before it is in view.
 * @param {KeyboardEvent} event
 */
function moveByArrows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const control = /** @type {HTMLElement} */ (event.target).closest("[data-control]");
  const row = control?.closest("[aria-rowindex]");
  if (!step || !control || !row || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const index = Number(row.getAttribute("aria-rowindex")) + step;
  const kind = control.getAttribute("data-control");
  const next = row.parentElement?.querySelector(`[aria-rowindex="${index}"] [data-control="${kind}"]`);
  if (!(next instanceof HTMLElement)) return;
  next.focus({ preventScroll: true });
  next.closest("[aria-rowindex]")?.scrollIntoView({ block: "nearest" });
}
