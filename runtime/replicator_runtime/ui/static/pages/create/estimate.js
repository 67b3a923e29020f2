// @ts-check
/** About how much the first copy of the selected tables is, and how long it takes: a range, never one number. */
import { html } from "../../core/html.js";
import { bytes, counted } from "../../core/format.js";

/** @typedef {import("./table_selection.js").SourceTable} SourceTable */
/**
 * @typedef {object} Estimate
 * @property {number} tables How many are selected.
 * @property {number} unknown Those of which the source says neither rows nor bytes.
 * @property {number} rows
 * @property {number} size In bytes.
 * @property {number} least Seconds; 0 when nothing is known.
 * @property {number} most Seconds.
 */

// bench/RESULTS.md: scenarios `snapshot` (245 bytes a row) and `tables`, from PostgreSQL into Delta on two cores.
const ROWS_A_SECOND = 470_000;
const BYTES_A_SECOND = 115_000_000;
const TABLE_SECONDS = 0.1;
const START_SECONDS = 15;
/** What a busy source, a network or a wide row may cost; assumed, not measured. */
const SLOWER = 10;

/**
 * @param {SourceTable[]} tables The selected ones.
 * @returns {Estimate}
 */
export function estimate(tables) {
  const known = tables.filter((one) => one.estimatedRows != null || one.estimatedBytes);
  const rows = known.reduce((sum, one) => sum + (one.estimatedRows ?? 0), 0);
  const size = known.reduce((sum, one) => sum + (one.estimatedBytes ?? 0), 0);
  const copying = Math.max(rows / ROWS_A_SECOND, size / BYTES_A_SECOND) + TABLE_SECONDS * tables.length;
  const any = known.length > 0;
  return { tables: tables.length, unknown: tables.length - known.length, rows, size, least: any ? START_SECONDS + copying : 0, most: any ? 2 * START_SECONDS + SLOWER * copying : 0 };
}

/**
 * Seconds in words, rounded up to one digit.
 * @param {number} seconds
 */
export function roughly(seconds) {
  if (seconds < 60) return "a minute";
  const [value, unit] = seconds < 5400 ? [seconds / 60, "minute"] : seconds < 129_600 ? [seconds / 3600, "hour"] : [seconds / 86_400, "day"];
  return counted(upToOneDigit(value), unit);
}

/** @param {number} value */
function upToOneDigit(value) {
  const step = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return Math.ceil(value / step) * step;
}

/** @param {number} rows */
function rowsInWords(rows) {
  const near = rows < 1000 ? rows : Number(rows.toPrecision(2));
  return new Intl.NumberFormat("en", { notation: near < 1_000_000 ? "standard" : "compact", compactDisplay: "long" }).format(near);
}

/**
 * The estimate in one line, with what it is based on below it.
 * @param {{tables: SourceTable[]}} props
 */
export function FirstCopy({ tables }) {
  const found = estimate(tables);
  if (found.tables === 0) return null;
  if (found.unknown === found.tables) {
    return html`<p class="muted first-copy">First copy: the source has no statistics of the selected tables, so neither size nor time is estimated.</p>`;
  }
  const span = roughly(found.least) === roughly(found.most) ? `about ${roughly(found.most)}` : `between ${roughly(found.least)} and ${roughly(found.most)}`;
  return html`<details class="first-copy"><summary>First copy: ${found.unknown ? "at least " : ""}about ${rowsInWords(found.rows)} rows${found.size ? `, ${bytes(Number(found.size.toPrecision(2)))} at the source` : ""}; likely ${span}</summary>
    <p>Rows and bytes are the source's statistics, of all rows and columns; some sources count indexes, too.${found.unknown ? ` ${counted(found.unknown, "table has", "tables have")} none and ${found.unknown === 1 ? "is" : "are"} not counted: have the database analyse them.` : ""}</p>
    <p>The shorter time is what was measured from PostgreSQL into Delta on two cores without other work: ${counted(ROWS_A_SECOND, "row")} or ${BYTES_A_SECOND / 1e6} MB a second, a tenth of a second for each table, and ${START_SECONDS} s to start. The longer one assumes a tenth of that, for a busy source, a network or another target.</p></details>`;
}
