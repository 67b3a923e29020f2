// @ts-check
/** Settings of step 5, as JSON Schema; keys and defaults are those of the pipeline (docs/configuration.md). */

const POLICY = ["apply", "ask", "fail"];
const KEEPING = ["apply", "ignore", "ask", "fail"];

/** @param {string} label @param {any[]} values @param {any} usual @param {string} description @param {Record<string, string>} [labels] */
function named(label, values, usual, description, labels) {
  return { label, enum: values, default: usual, description, labels };
}

/** Rates that are offered, and how many tables are then applied at once. */
export const RATES = [
  { label: "Up to 1 GB an hour", tables: 1 },
  { label: "1 to 10 GB an hour", tables: 4 },
  { label: "11 to 50 GB an hour", tables: 8 },
  { label: "51 to 100 GB an hour", tables: 18 },
];

/** Each group: title and settings by dotted path. @type {{title: string, settings: Record<string, any>}[]} */
export const GROUPS = [
  {
    title: "Existing rows and new tables",
    settings: {
      "snapshot.mode": named("Existing rows", ["initial", "never", "only"], "initial", "Whether rows that exist are copied.", {
        initial: "Copy existing rows, then every change",
        never: "Changes from now on only",
        only: "Copy existing rows, then end",
      }),
      "snapshot.maxRowsPerSecond": { label: "Rows a second of copies", type: "number", exclusiveMinimum: 0, description: "How many rows all copies together read in a second, on average; as fast as they can when left out." },
      newTables: named("New tables", ["include", "ignore"], "include", "Tables that are created later and match the selection.", { include: "Take them in", ignore: "Leave them out" }),
    },
  },
  {
    title: "Errors",
    settings: {
      onTableError: named("A failing table stops", ["isolate", "stop"], "isolate", "What a failing table stops.", { isolate: "Itself only", stop: "The pipeline" }),
      onDataError: named("Refused values", ["fail", "lane", "null"], "fail", "When source or target refuses a value.", { fail: "The table fails", lane: "Put the row aside as a dead letter", null: "Write NULL" }),
      "retries.maxDurationSeconds": { label: "Seconds of retries", type: "number", minimum: 0, description: "Give up after so long without progress; never when left out." },
    },
  },
  {
    title: "Changes of structure",
    settings: {
      "ddlPolicies.addColumn": named("Added column", POLICY, "apply", "A column is added."),
      "ddlPolicies.dropColumn": named("Dropped column", KEEPING, "apply", "A column is dropped. `ignore` keeps it."),
      "ddlPolicies.renameColumn": named("Renamed column", POLICY, "apply", "A column is renamed."),
      "ddlPolicies.widenType": named("Widened type", POLICY, "apply", "A type is widened."),
      "ddlPolicies.changeType": named("Changed type", POLICY, "apply", "A type is changed otherwise."),
      "ddlPolicies.truncate": named("Truncated table", KEEPING, "apply", "All rows are removed. `ignore` keeps them."),
      "ddlPolicies.dropTable": named("Dropped table", KEEPING, "apply", "A table is dropped. `ignore` keeps it."),
      edits: named("Edits of this pipeline", ["ask", "apply"], "ask", "Edits of the pipeline that remove what the target has.", { ask: "Wait for an approval", apply: "Apply at once" }),
    },
  },
  {
    title: "Batches and state",
    settings: {
      "batch.maxIntervalSeconds": { label: "Seconds of a batch", type: "number", minimum: 0, description: "How long changes are gathered at most; 1 to 4 s when left out." },
      offsetBasePath: { label: "Folder of the state", type: "string", format: "path", description: "Folder or URL of offsets and state; the service's own when left out." },
      "spark.master": { label: "Spark master", type: "string", default: "local[*]", description: "Spark's master URL." },
    },
  },
];
