// @ts-check
/** The columns of a pipeline's tables; each cell follows its table alone. */
import { html } from "../../core/html.js";
import { duration, number, rate } from "../../core/format.js";
import { Icon } from "../../components/icons.js";
import { Ago } from "../../live/clock.js";
import { Badge, tableState } from "../../live/states.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */
/** @typedef {import("../../live/shapes.js").TableRow} TableRow */
/**
 * @typedef {{
 *   live: PipelineLive, shown: import("@preact/signals").Signal<string[]>, selected: import("@preact/signals").Signal<ReadonlySet<string>>,
 *   toggle: (key: string, range: boolean) => void, toggleAll: () => void,
 *   menu: (key: string, at: DOMRect) => void, open: (key: string) => void,
 * }} Grid
 */

const few = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/**
 * @param {Grid} grid
 * @param {boolean} narrow
 * @param {boolean} wide
 * @returns {import("../../components/table.js").Column<string>[]}
 */
export function columnsOf(grid, narrow, wide) {
  const { live } = grid;
  /** @param {(row: TableRow) => any} show @returns {(key: string) => any} */
  const of = (show) => (key) => html`<${Cell} live=${live} name=${key} show=${show} />`;
  const select = { key: "select", width: "34px", label: html`<${SelectAll} ...${grid} />`, cell: (/** @type {string} */ key) => html`<${Select} grid=${grid} name=${key} />` };
  const menu = { key: "menu", width: "44px", label: html`<span class="off-screen">Actions</span>`, cell: (/** @type {string} */ key) => html`<${MenuButton} grid=${grid} name=${key} />` };
  if (narrow) {
    return [select, { key: "table", label: "Table", width: "minmax(0, 1fr)", cell: of((row) => html`<${Stacked} row=${row} grid=${grid} />`) }, menu];
  }
  return [
    select,
    { key: "table", label: "Table", width: "minmax(140px, 2.4fr)", sorts: true, cell: of((row) => html`<${Name} row=${row} grid=${grid} />`) },
    { key: "state", label: "State", width: "134px", cell: of((row) => html`<${Badge} state=${tableState(row.state)} />`) },
    ...(wide ? [{ key: "copy", label: "Copy", width: "minmax(80px, 1fr)", cell: of((row) => html`<${Copy} row=${row} live=${live} />`) }] : []),
    { key: "lag", label: "Lag", width: "66px", align: "end", sorts: true, cell: of((row) => duration(row.lagSeconds)) },
    { key: "rate", label: "Rows/s", width: "66px", align: "end", sorts: true, cell: of((row) => rate(row.rowsPerSecond).replace("/s", "")) },
    ...(wide ? amounts(of) : []),
    { key: "why", label: "Errors", width: "minmax(100px, 1.6fr)", cell: of((row) => (!wide && row.state === "SNAPSHOTTING" ? html`<${Copy} row=${row} live=${live} />` : html`<${Why} row=${row} />`)) },
    { key: "verified", label: "Verified", width: "98px", sorts: true, cell: of((row) => html`<${Verified} row=${row} />`) },
    menu,
  ];
}

/**
 * How much there is of a table: for pages with room for it.
 * @param {(show: (row: TableRow) => any) => (key: string) => any} of
 * @returns {import("../../components/table.js").Column<string>[]}
 */
const amounts = (of) => [
  { key: "rows", label: "Rows", width: "92px", align: "end", sorts: true, cell: of((row) => number(row.rows)) },
  { key: "changes", label: html`<abbr title="Inserts, updates and deletes that were applied; rows of copies are not counted">I / U / D</abbr>`, width: "132px", align: "end", cell: of(changes) },
];

/** @param {{ live: PipelineLive, name: string, show: (row: TableRow) => any }} props */
function Cell({ live, name, show }) {
  const row = live.tables.of(name).value;
  return row ? show(row) : null;
}

/** @param {Grid} props */
function SelectAll({ shown, selected, toggleAll }) {
  const keys = shown.value;
  const all = keys.length > 0 && keys.every((key) => selected.value.has(key));
  return html`<input type="checkbox" checked=${all} aria-label="Choose all tables that are listed" onChange=${toggleAll} />`;
}

/** @param {{ grid: Grid, name: string }} props */
function Select({ grid, name }) {
  const label = grid.live.tables.rows.get(name)?.name ?? name;
  return html`<input type="checkbox" data-control="select" data-table=${name} checked=${grid.selected.value.has(name)} aria-label=${`Choose ${label}`}
    onClick=${(/** @type {MouseEvent} */ event) => grid.toggle(name, event.shiftKey)} />`;
}

/** @param {{ grid: Grid, name: string }} props */
function MenuButton({ grid, name }) {
  const label = grid.live.tables.rows.get(name)?.name ?? name;
  return html`<button type="button" class="quiet small" data-control="menu" aria-haspopup="menu" aria-label=${`Actions for ${label}`}
    onClick=${(/** @type {MouseEvent} */ event) => grid.menu(name, /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect())}><${Icon} name="more" /></button>`;
}

/** @param {{ row: TableRow, grid: Grid }} props */
const Name = ({ row, grid }) =>
  html`<button type="button" class="link" data-control="name" title=${row.name} onClick=${() => grid.open(row.id)}>${row.name}</button>`;

/** @param {{ row: TableRow, live: PipelineLive }} props */
function Copy({ row, live }) {
  if (row.state !== "SNAPSHOTTING") return row.waitsFor ? html`<span class="muted" title=${row.waitsFor}>waits</span>` : html`<span class="muted">–</span>`;
  const percent = row.snapshotPercent;
  if (percent == null) return html`<span class="muted">begins</span>`;
  const left = live.secondsLeft(row);
  return html`<span class="copy"><progress max="100" value=${percent} aria-label=${`Copy of ${row.name}`}></progress>
    <span>${Math.floor(percent)} %${left == null ? "" : `, ${duration(left)} left`}</span></span>`;
}

/** @param {TableRow} row */
const changes = (row) =>
  row.inserts == null
    ? "–"
    : html`<span class="changes" title=${`${number(row.inserts)} inserts, ${number(row.updates ?? 0)} updates, ${number(row.deletes ?? 0)} deletes`}>
        ${few.format(row.inserts)} / ${few.format(row.updates ?? 0)} / ${few.format(row.deletes ?? 0)}</span>`;

/** @param {{ row: TableRow }} props */
function Why({ row }) {
  if (row.error) return html`<span class="broken" title=${row.error.message}><code>${row.error.code || "error"}</code> ${row.error.message}</span>`;
  if (row.pause?.asks) return html`<span title=${row.pause.asks}>asks: ${row.pause.asks}</span>`;
  if (row.rowsPutAside) return html`<span>${number(row.rowsPutAside)} rows put aside</span>`;
  return html`<span class="muted">none</span>`;
}

/** @param {{ row: TableRow }} props */
function Verified({ row }) {
  if (row.verifyResult === "different") return html`<span class="broken"><${Icon} name="warning" label="different" /> <${Ago} at=${row.verifiedAt} /></span>`;
  return html`<${Ago} at=${row.verifiedAt} />`;
}

/** All of it in one cell, for a narrow page. @param {{ row: TableRow, grid: Grid }} props */
function Stacked({ row, grid }) {
  return html`<span class="stacked">
    <${Name} row=${row} grid=${grid} />
    <span class="stacked-line"><${Badge} state=${tableState(row.state)} />
      ${row.state === "SNAPSHOTTING" ? html`<${Copy} row=${row} live=${grid.live} />` : html`<span>lag ${duration(row.lagSeconds)}</span><span>${rate(row.rowsPerSecond)}</span>`}</span>
    ${Boolean(row.error || row.pause?.asks || row.rowsPutAside) && html`<span class="stacked-line"><${Why} row=${row} /></span>`}
  </span>`;
}
