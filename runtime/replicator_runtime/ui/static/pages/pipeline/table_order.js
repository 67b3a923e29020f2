// @ts-check
/** Which tables are shown, in which order. */

/** @typedef {import("../../live/shapes.js").TableRow} TableRow */

/** @type {{ key: string, label: string, sort?: { key: string, descending: boolean } }[]} */
export const ORDERS = [
  { key: "needs", label: "Needs you first" },
  { key: "table", label: "Name", sort: { key: "table", descending: false } },
  { key: "lag", label: "Largest lag", sort: { key: "lag", descending: true } },
  { key: "rate", label: "Most rows/s", sort: { key: "rate", descending: true } },
  { key: "rows", label: "Most rows", sort: { key: "rows", descending: true } },
  { key: "verified", label: "Verified longest ago", sort: { key: "verified", descending: false } },
];

const RANKS = { FAILING: 0, PAUSED: 3, SNAPSHOTTING: 4, PENDING: 5, REPLICATING: 6 };

/** Lower needs someone sooner. @param {TableRow} row */
function rank(row) {
  if (row.state === "FAILING" || row.error) return 0;
  if (row.pause?.asks) return 1;
  if (row.waitsFor || row.verifyResult === "different" || row.rowsPutAside) return 2;
  return RANKS[/** @type {keyof typeof RANKS} */ (row.state)] ?? 7;
}

const names = new Intl.Collator("en", { numeric: true });
/** @param {TableRow} a @param {TableRow} b */
const byName = (a, b) => names.compare(a.name, b.name);

/** @type {Record<string, (a: TableRow, b: TableRow) => number>} */
const COMPARE = {
  needs: (a, b) => rank(a) - rank(b) || byName(a, b),
  table: byName,
  lag: (a, b) => (b.lagSeconds ?? -1) - (a.lagSeconds ?? -1) || byName(a, b),
  rate: (a, b) => (b.rowsPerSecond ?? -1) - (a.rowsPerSecond ?? -1) || byName(a, b),
  rows: (a, b) => (b.rows ?? -1) - (a.rows ?? -1) || byName(a, b),
  verified: (a, b) => (a.verifiedAt ?? "").localeCompare(b.verifiedAt ?? "") || byName(a, b),
};

/**
 * The ids of those that match.
 * @param {Iterable<TableRow>} rows
 * @param {string} text
 * @param {string} state
 * @param {string} order
 */
export function orderedKeys(rows, text, state, order) {
  const wanted = text.trim().toLowerCase();
  /** @type {TableRow[]} */
  const found = [];
  for (const row of rows) {
    if (state && row.state !== state) continue;
    if (wanted && !`${row.database}.${row.name} ${row.error?.code ?? ""}`.toLowerCase().includes(wanted)) continue;
    found.push(row);
  }
  return found.sort(COMPARE[order] ?? COMPARE["needs"]).map((row) => row.id);
}
