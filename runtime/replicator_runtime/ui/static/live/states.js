// @ts-check
/** What state something is in: by one word, which `StatusBadge` shows with a sign and a colour. */
import { html } from "../core/html.js";
import { StatusBadge } from "../components/badge.js";

/** @typedef {import("./shapes.js").PipelineItem} PipelineItem */
/** @typedef {import("./shapes.js").TableRow} TableRow */
/** @typedef {{ id: string, word: string }} State `id` is known to `StatusBadge`. */

/** @type {Record<string, State>} */
const PIPELINE = {
  running: { id: "running", word: "Running" },
  snapshotting: { id: "snapshotting", word: "Snapshotting" },
  starting: { id: "starting", word: "Starting" },
  stopping: { id: "stopping", word: "Stopping" },
  deleting: { id: "deleting", word: "Deleting" },
  paused: { id: "paused", word: "Paused" },
  stopped: { id: "stopped", word: "Stopped" },
  retrying: { id: "retrying", word: "Retrying" },
  backoff: { id: "backoff", word: "Restarts soon" },
  waiting: { id: "waiting", word: "Waiting" },
  failed: { id: "failed", word: "Failed" },
};

/** @type {Record<string, State>} */
const TABLE = {
  REPLICATING: { id: "REPLICATING", word: "Replicating" },
  SNAPSHOTTING: { id: "SNAPSHOTTING", word: "Snapshotting" },
  PENDING: { id: "PENDING", word: "Pending" },
  PAUSED: { id: "PAUSED", word: "Paused" },
  FAILING: { id: "FAILING", word: "Failing" },
};

export const TABLE_STATES = Object.values(TABLE);

/** @param {string} word @returns {State} */
const unknown = (word) => ({ id: word, word: word || "Unknown" });

/** The state of a pipeline: of its process, and of its run where it lives. @param {PipelineItem} item @returns {State} */
export function pipelineState(item) {
  if (item.state !== "running") return PIPELINE[item.state] ?? unknown(item.state);
  const byPhase = { snapshot: "snapshotting", streaming: "running", maintenance: "running", reset: "starting", done: "stopping" };
  const phase = item.paused ? "paused" : (item.phase ?? "starting");
  const id = byPhase[/** @type {keyof typeof byPhase} */ (phase)] ?? phase;
  if (id === "running" && (item.tables?.["SNAPSHOTTING"] ?? 0) > 0) return /** @type {State} */ (PIPELINE["snapshotting"]);
  return PIPELINE[id] ?? unknown(phase);
}

/** @param {string} state @returns {State} */
export const tableState = (state) => TABLE[state] ?? unknown(state);

/** Whether it, or a table of it, fails. @param {PipelineItem} item */
export const isFailing = (item) =>
  ["failed", "backoff", "retrying"].includes(pipelineState(item).id) || (item.tables?.["FAILING"] ?? 0) > 0;

/** @param {{ state: State, title?: string }} props */
export const Badge = ({ state, title }) => html`<${StatusBadge} state=${state.id} label=${state.word} title=${title} />`;
