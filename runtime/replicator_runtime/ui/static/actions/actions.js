// @ts-check
/**
 * What can be done to a pipeline and to its tables: the request, the command that does the same, and its effect in words.
 *
 * An effect is said before it happens; one that cannot be taken back asks for the pipeline's name.
 */
import { counted } from "../core/format.js";

/** @typedef {"viewer" | "operator" | "admin"} Role */

/**
 * @typedef {{ name: string, label: string, hint?: string, kind: "flag" | "text", value?: string | boolean,
 *   required?: boolean }} Choice One more thing that is asked: a key of the request's body.
 */

/**
 * @typedef {{
 *   id: string,
 *   label: string,
 *   role: Role,
 *   asks: "nothing" | "yes" | "name",
 *   danger?: boolean,
 *   method?: "POST" | "DELETE",
 *   path: string,
 *   choices?: Choice[],
 *   body?: (choices: Record<string, unknown>) => Record<string, unknown>,
 *   tables?: "some" | "one",
 *   effect: string,
 *   words: (choices: Record<string, unknown>) => string[],
 *   outcome: "request" | "job" | "pipeline",
 * }} Action `path` is below the pipeline's; `words` are the command's, in which FILE, NAME and TABLES are replaced.
 */

/** @type {Action[]} */
export const PIPELINE_ACTIONS = [
  {
    id: "start", label: "Start", role: "operator", asks: "nothing", path: "start", outcome: "pipeline",
    effect: "A run starts, and goes on from the saved offset.",
    words: () => ["run", "FILE"],
  },
  {
    id: "stop", label: "Stop", role: "operator", asks: "yes", path: "stop", outcome: "pipeline",
    effect: "The run applies what it has gathered, saves its offset and ends. Until the pipeline is started again nothing is replicated, and the source has to keep its log.",
    words: () => ["stop", "NAME"],
  },
  {
    id: "restart", label: "Restart", role: "operator", asks: "yes", path: "restart", outcome: "pipeline",
    effect: "The run applies what it has gathered, saves its offset and ends; then a new one starts, with the configuration as it is stored now.",
    words: () => ["restart", "NAME"],
  },
  {
    id: "pause", label: "Pause", role: "operator", asks: "yes", path: "pause", outcome: "request",
    effect: "Nothing is read until the pipeline is resumed, also over restarts. The source has to keep its log meanwhile: a PostgreSQL slot holds WAL until the disk is full or its limit is reached.",
    words: () => ["pause", "FILE"],
  },
  {
    id: "resume", label: "Resume", role: "operator", asks: "nothing", path: "resume", outcome: "request",
    effect: "The log is read again from where it was paused.",
    words: () => ["resume", "FILE"],
  },
  {
    id: "verify-all", label: "Verify all tables", role: "operator", asks: "yes", path: "verify", outcome: "job",
    effect: "Every table is compared with its copy, row by row. It reads the source and the target; it changes nothing and stops nothing.",
    body: () => ({}),
    words: () => ["verify", "FILE"],
  },
  {
    id: "maintain", label: "Run maintenance", role: "operator", asks: "yes", path: "maintain", outcome: "job",
    effect: "The target does the maintenance that is due: compaction, removal of old files and the like. A run does the same by itself, so it is refused while one goes on.",
    body: () => ({}),
    words: () => ["maintain", "FILE"],
  },
  {
    id: "heal", label: "Heal", role: "admin", asks: "name", danger: true, path: "heal", outcome: "job",
    effect: "Each table is compared with its copy; rows that differ are written again, rows that the source does not have are deleted at the target. Reading begins where the log is now: what changed in between is known by its end only. No run may go on beside it.",
    words: () => ["heal", "FILE", "--yes"],
  },
  {
    id: "reset", label: "Reset", role: "admin", asks: "name", danger: true, path: "reset", outcome: "job",
    effect: "A new generation begins: the next run copies every table again. Offsets of before can not be resumed. No run may go on.",
    words: () => ["reset", "FILE", "--yes"],
  },
  {
    id: "delete", label: "Delete", role: "admin", asks: "name", danger: true, method: "DELETE", path: "", outcome: "pipeline",
    effect: "The run ends; what the replicator created at the source (such as its slot and publication) and its state are deleted, so that it can not be resumed. Tables at the target stay.",
    choices: [
      { name: "targetTables", label: "Delete its tables at the target, too", kind: "flag", value: false },
      { name: "keepSource", label: "Leave the source alone", kind: "flag", value: false, hint: "Such as when it can not be reached any more. What is there has to be removed by hand: a slot that stays fills the source's disk." },
    ],
    words: (choices) => ["delete", "FILE", ...(choices["targetTables"] ? ["--target-tables"] : []), ...(choices["keepSource"] ? ["--keep-source"] : []), "--yes"],
  },
];

/** @type {Action[]} */
export const TABLE_ACTIONS = [
  {
    id: "table-pause", label: "Pause", role: "operator", asks: "yes", path: "tables/pause", tables: "some", outcome: "request",
    effect: "Keeps the changes of TABLES in a lane until resume, and applies none. Other tables go on, and the source's log is not held.",
    words: () => ["table", "pause", "FILE", "TABLES"],
  },
  {
    id: "table-resume", label: "Resume", role: "operator", asks: "nothing", path: "tables/resume", tables: "some", outcome: "request",
    effect: "Applies the changes that were kept for TABLES, then new ones.",
    words: () => ["table", "resume", "FILE", "TABLES"],
  },
  {
    id: "table-retry", label: "Retry", role: "operator", asks: "nothing", path: "tables/retry", tables: "some", outcome: "request",
    effect: "Tries TABLES again now.",
    words: () => ["table", "retry", "FILE", "TABLES"],
  },
  {
    id: "table-resync", label: "Resync", role: "operator", asks: "yes", path: "tables/resync", tables: "some", outcome: "request",
    effect: "Copies TABLES again from the source. Readers see the copy of before until the new one is whole, where the target can do so.",
    choices: [{
      name: "inPlace", label: "In place", kind: "flag", value: false,
      hint: "The rows are deleted first, and arrive again chunk by chunk: readers see a part of the table meanwhile.",
    }],
    words: (choices) => ["table", "resync", "FILE", "TABLES", ...(choices["inPlace"] ? ["--in-place"] : [])],
  },
  {
    id: "table-verify", label: "Verify", role: "operator", asks: "nothing", path: "verify", tables: "some", outcome: "job",
    effect: "Compares TABLES with the target, row by row. Changes nothing.",
    words: () => ["verify", "FILE", "TABLES"],
  },
  {
    id: "table-repair", label: "Verify and repair", role: "admin", asks: "yes", danger: true, path: "verify", tables: "some", outcome: "job",
    effect: "Compares TABLES with the target. Rows that differ are written again as the source has them; rows that the source does not have are deleted at the target.",
    body: () => ({ repair: true }),
    words: () => ["verify", "FILE", "TABLES", "--repair", "--yes"],
  },
  {
    id: "table-explain", label: "Explain a row", role: "operator", asks: "yes", path: "explainRow", tables: "one", outcome: "job",
    effect: "Looks at one row of TABLES on both sides. Changes nothing.",
    choices: [{
      name: "key", label: "Key", kind: "text", value: "", required: true,
      hint: "Each column of the key, as id=7 or order=7,line=2; or JSON.",
    }],
    body: (choices) => ({ key: keyOf(String(choices["key"] ?? "")) }),
    words: (choices) => ["explain-row", "FILE", "TABLES", String(choices["key"] || "KEY")],
  },
  {
    id: "table-drop", label: "Drop", role: "admin", asks: "name", danger: true, path: "tables/drop", tables: "some", outcome: "request",
    effect: "Deletes TABLES at the target, with all earlier versions, and forgets what is stored of it. This can not be taken back. A table that the pipeline still selects is refused.",
    choices: [{
      name: "keepTarget", label: "Keep the table at the target", kind: "flag", value: false,
      hint: "Only forget what is stored of it.",
    }],
    words: (choices) => ["table", "drop", "FILE", "TABLES", ...(choices["keepTarget"] ? ["--keep-target"] : []), "--yes"],
  },
];

/** Takes a request back that was not carried out yet. @param {string} request @returns {Action} */
export const withdrawal = (request) => ({
  id: "withdraw", label: "Withdraw", role: "operator", asks: "nothing", method: "DELETE", path: `requests/${request}`, outcome: "pipeline",
  effect: "The request is not carried out.",
  words: () => ["requests", "NAME"],
});

/**
 * The decision on a change of structure.
 * @param {{ id: string, text: string, name: string }} change
 * @param {"approve" | "reject"} decision
 * @returns {Action}
 */
export const decisionOn = (change, decision) => ({
  id: `ddl-${decision}`, label: decision === "approve" ? "Approve" : "Reject", role: "operator", asks: "yes", danger: decision === "reject",
  path: `schemaChanges/${change.id}/${decision}`, outcome: "request",
  effect: decision === "approve"
    ? `The target follows "${change.text}" of ${change.name}, and then gets the changes that came after it.`
    : `The target goes on without "${change.text}" of ${change.name}: it keeps the dropped columns, the rows, or the table.`,
  words: () => ["ddl", decision, "FILE", change.id],
});

/** A table's id for people: its parts without the quotes that commands need. @param {string} id */
export const readable = (id) => id.replace(/"((?:[^"]|"")*)"/g, (_, part) => part.replaceAll('""', '"'));

/** The columns of a key that was typed. @param {string} text @returns {Record<string, unknown>} */
export function keyOf(text) {
  if (text.trim().startsWith("{")) {
    try {
      return JSON.parse(text);
    } catch {
      return {};
    }
  }
  return Object.fromEntries(text.split(",").filter(Boolean).map((part) => {
    const [name = "", ...value] = part.split("=");
    return [name.trim(), value.join("=")];
  }));
}

/** Roles, each may do what those before it may. */
const ROLES = ["viewer", "operator", "admin"];

/**
 * Why someone may not do it; undefined when they may.
 * @param {{ role: Role }} action
 * @param {Role | undefined} role
 */
export function whyNot(action, role) {
  if (!role || ROLES.indexOf(role) >= ROLES.indexOf(action.role)) return undefined;
  return `This needs the role ${action.role}; you have ${role}.`;
}

/**
 * The effect with its tables named.
 * @param {Action} action
 * @param {readonly string[]} tables
 */
export const effectOf = (action, tables) =>
  action.effect.replace("TABLES", tables.length === 1 ? `table ${readable(tables[0] ?? "")}` : counted(tables.length, "table"));

/**
 * The words of the command that does the same.
 * @param {Action} action
 * @param {string} pipeline
 * @param {readonly string[]} tables
 * @param {Record<string, unknown>} choices
 */
export const wordsOf = (action, pipeline, tables, choices) =>
  action.words(choices).flatMap((word) => (word === "TABLES" ? tables : word === "FILE" ? `${pipeline}.json` : word === "NAME" ? pipeline : word));
