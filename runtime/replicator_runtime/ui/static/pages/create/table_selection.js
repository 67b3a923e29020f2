// @ts-check
/** Which tables `tables` of a config selects, and changes of it; as `config/selection.py` decides. */

/** @typedef {Pick<import("../../core/shapes.js").ListedTable, "database" | "schema" | "table"> & Partial<import("../../core/shapes.js").ListedTable>} SourceTable */
/** @typedef {{database?: string | null, schema?: string | null, table: string, columns?: any[] | null, dmlBlacklist?: string[], exclude?: boolean, [key: string]: any}} Entry */

/**
 * A table's name for people and for keys.
 * @param {{database?: string | null, schema?: string | null, table: string}} table
 */
export function tableName(table) {
  return [table.schema || table.database, table.table].filter(Boolean).join(".");
}

/**
 * The parts by which an entry names exactly this table.
 * @param {SourceTable} table
 * @returns {Entry}
 */
export function entryOf(table) {
  if (table.schema) return { schema: table.schema, table: table.table };
  if (table.database) return { database: table.database, table: table.table };
  return { table: table.table };
}

/** @param {string} pattern @returns {RegExp} */
function glob(pattern) {
  return new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, "[\\s\\S]*").replace(/\?/g, "[\\s\\S]")}$`, "u");
}

/**
 * Whether a pattern is, or fits, a name.
 * @param {string} pattern
 * @param {string} name
 */
export function fits(pattern, name) {
  return pattern === name || glob(pattern).test(name);
}

/** @param {Entry} entry */
export function isPattern(entry) {
  return [entry.database, entry.schema, entry.table].some((part) => typeof part === "string" && /[*?]/.test(part));
}

/** @param {Entry} entry @returns {(table: SourceTable) => boolean} */
function matcher(entry) {
  const parts = /** @type {["database" | "schema" | "table", RegExp, string][]} */ ([]);
  for (const key of /** @type {("database" | "schema" | "table")[]} */ (["database", "schema", "table"])) {
    const part = entry[key];
    if (typeof part === "string" && part !== "") parts.push([key, glob(part), part]);
  }
  return (table) => parts.every(([key, pattern, text]) => table[key] === text || pattern.test(table[key] ?? ""));
}

/** What a list of entries selects; made once a list, asked for every table. */
export class TableSelection {
  /** @param {Entry[]} entries */
  constructor(entries) {
    this.entries = entries.filter((one) => one && typeof one.table === "string");
    /** @type {Map<string, Entry[]>} */
    this.exact = new Map();
    /** @type {{entry: Entry, matches: (table: SourceTable) => boolean}[]} */
    this.patterns = [];
    for (const entry of this.entries) {
      if (isPattern(entry)) this.patterns.push({ entry, matches: matcher(entry) });
      else this.exact.set(entry.table, [...(this.exact.get(entry.table) ?? []), entry]);
    }
    this.selectsAll = !this.entries.some((one) => !one.exclude);
  }

  /**
   * The entries that match a table, those with its exact name first.
   * @param {SourceTable} table
   * @returns {Entry[]}
   */
  matching(table) {
    const named = (this.exact.get(table.table) ?? []).filter((one) => (!one.schema || one.schema === table.schema) && (!one.database || one.database === table.database));
    return [...named, ...this.patterns.filter((one) => one.matches(table)).map((one) => one.entry)];
  }

  /**
   * The entry by which a table is selected; null when it is not. `{}` stands for all tables.
   * @param {SourceTable} table
   * @returns {Entry | {} | null}
   */
  of(table) {
    const found = this.matching(table);
    if (found.some((one) => one.exclude)) return null;
    if (this.selectsAll) return {};
    return found.find((one) => !one.exclude) ?? null;
  }

  /** @param {SourceTable} table */
  selects(table) {
    return this.of(table) !== null;
  }
}

/**
 * Selects some tables, or none of them.
 * @param {Entry[]} entries
 * @param {SourceTable[]} tables
 * @param {boolean} chosen
 * @returns {Entry[]}
 */
export function withTables(entries, tables, chosen) {
  const keys = new Set(tables.map((table) => key(entryOf(table))));
  const names = new Set(tables.map((table) => table.table));
  const isOne = (/** @type {Entry} */ entry) => !isPattern(entry) && (keys.has(key(entry)) || (!entry.schema && !entry.database && names.has(entry.table)));
  const kept = entries.filter((entry) => !(isOne(entry) && (chosen ? entry.exclude : !entry.exclude)) && !(chosen && isNothing(entry)));
  const now = new TableSelection(kept);
  const wasNothing = entries.some(isNothing);
  if (chosen) return [...kept, ...tables.filter((table) => wasNothing || !now.selects(table)).map(entryOf)];
  // Without an entry that selects, everything would be selected.
  if (now.selectsAll && !new TableSelection(entries).selectsAll) return [NOTHING];
  return [...kept, ...tables.filter((table) => now.selects(table)).map((table) => ({ ...entryOf(table), exclude: true }))];
}

/** Selects no table: an entry that excludes all. @type {Entry} */
export const NOTHING = { table: "*", exclude: true };

/** @param {Entry} entry */
export function isNothing(entry) {
  return entry.exclude === true && entry.table === "*" && !entry.schema && !entry.database;
}

/**
 * Changes how one selected table is replicated.
 * @param {Entry[]} entries
 * @param {SourceTable} table
 * @param {Partial<Entry>} change Values; undefined and empty lists remove a key.
 * @returns {Entry[]}
 */
export function withTableSettings(entries, table, change) {
  const wanted = key(entryOf(table));
  const at = entries.findIndex((entry) => !entry.exclude && !isPattern(entry) && key(entry) === wanted);
  const from = at >= 0 ? entries[at] : { .../** @type {Entry} */ (new TableSelection(entries).of(table) ?? {}), ...entryOf(table) };
  const next = /** @type {Entry} */ (Object.fromEntries(Object.entries({ ...from, ...change }).filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0))));
  if (at >= 0) return entries.map((entry, index) => (index === at ? next : entry));
  return new TableSelection(entries).selectsAll ? [...entries, next, { table: "*" }] : [...entries, next];
}

/** @param {Entry} entry */
function key(entry) {
  return JSON.stringify([entry.database ?? "", entry.schema ?? "", entry.table]);
}

/**
 * An entry from what somebody types: `table`, `schema.table` or `database.schema.table`, with `*` and `?`.
 * @param {string} text
 * @param {boolean} [schemas] Whether the source has schemas; else two parts are `database.table`.
 * @returns {Entry | null}
 */
export function typedEntry(text, schemas = true) {
  const parts = text.trim().split(".");
  if (parts.length > 3 || parts.some((part) => part === "")) return null;
  if (parts.length === 1) return { table: parts[0] };
  if (parts.length === 2) return schemas ? { schema: parts[0], table: parts[1] } : { database: parts[0], table: parts[1] };
  return { database: parts[0], schema: parts[1], table: parts[2] };
}
