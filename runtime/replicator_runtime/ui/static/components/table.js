// @ts-check
import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/html.js";
import { Icon } from "./icons.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} key
 * @property {any} label
 * @property {string} [width] Of CSS grid, such as `minmax(180px, 2fr)` or `90px`.
 * @property {"start" | "end"} [align] Numbers at the end.
 * @property {boolean} [sorts] Whether its heading sorts.
 * @property {(row: T, index: number) => any} cell
 */

const BESIDE = 8;

/**
 * A table of any length: only the rows that are seen exist in the document.
 * @template T
 * @param {{label: string, columns: Column<T>[], rows: T[], rowKey: (row: T) => string, rowHeight?: number, tall?: string,
 *   sort?: {key: string, descending: boolean}, onSort?: (key: string) => void, rowClass?: (row: T) => string, empty?: any}} props
 *   `tall` is a class for the height of the scrolled part.
 */
export function DataTable({ label, columns, rows, rowKey, rowHeight = 36, tall = "tall", sort, onSort, rowClass, empty }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    let asked = 0;
    const measure = () => {
      asked = 0;
      setView((before) => (before.top === element.scrollTop && before.height === element.clientHeight ? before : { top: element.scrollTop, height: element.clientHeight }));
    };
    const later = () => {
      asked ||= requestAnimationFrame(measure);
    };
    measure();
    element.addEventListener("scroll", later, { passive: true });
    const observer = new ResizeObserver(later);
    observer.observe(element);
    return () => {
      cancelAnimationFrame(asked);
      element.removeEventListener("scroll", later);
      observer.disconnect();
    };
  }, []);
  useEffect(() => {
    const element = scroller.current;
    if (element && element.scrollTop > rows.length * rowHeight) element.scrollTop = 0;
  }, [rows.length]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - BESIDE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + BESIDE);
  const grid = columns.map((column) => column.width ?? "minmax(100px, 1fr)").join(" ");
  return html`<div class=${`vtable ${tall}`} ref=${scroller} tabindex="0" role="region" aria-label=${label}>
    <div class="vtable-in" role="table" aria-label=${label} aria-rowcount=${rows.length + 1}>
      <div role="rowgroup" class="vtable-head"><div role="row" class="vrow" aria-rowindex="1" style=${{ gridTemplateColumns: grid }}>
        ${columns.map((column) => html`<div key=${column.key} role="columnheader" class=${column.align === "end" ? "end" : ""} aria-sort=${sort?.key === column.key ? (sort.descending ? "descending" : "ascending") : undefined}>
          ${column.sorts && onSort ? html`<button type="button" class="sorts" onClick=${() => onSort(column.key)}>${column.label}${sort?.key === column.key && html`<span class=${sort.descending ? "turned down" : "turned up"}><${Icon} name="down" /></span>`}</button>` : column.label}
        </div>`)}
      </div></div>
      <div role="rowgroup" class="vtable-body" style=${{ height: `${rows.length * rowHeight}px` }}>
        ${rows.slice(first, last).map((row, at) => {
          const index = first + at;
          return html`<div key=${rowKey(row)} role="row" class=${`vrow ${rowClass?.(row) ?? ""}`} aria-rowindex=${index + 2} style=${{ gridTemplateColumns: grid, transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}>
            ${columns.map((column) => html`<div key=${column.key} role="cell" class=${column.align === "end" ? "end" : ""}>${column.cell(row, index)}</div>`)}
          </div>`;
        })}
      </div>
    </div>
    ${rows.length === 0 && empty}
  </div>`;
}
