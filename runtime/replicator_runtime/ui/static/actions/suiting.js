// @ts-check
/** Which actions a pipeline or a table can use as it is now. */
import { PIPELINE_ACTIONS, TABLE_ACTIONS } from "./actions.js";

/** @typedef {import("../live/shapes.js").PipelineItem} PipelineItem */
/** @typedef {import("../live/shapes.js").TableRow} TableRow */

/** @param {string} id */
export const actionOf = (id) =>
  /** @type {import("./actions.js").Action} */ ([...PIPELINE_ACTIONS, ...TABLE_ACTIONS].find((action) => action.id === id));

/**
 * Those of a pipeline: it is started or stopped, paused or resumed.
 * @param {PipelineItem} item
 */
export function suiting(item) {
  const lives = !["stopped", "failed"].includes(item.state);
  const hidden = new Set([
    ...(item.wanted === "started" && lives ? ["start"] : []),
    ...(item.wanted === "stopped" ? ["stop", "restart"] : []),
    item.paused || item.phase === "paused" ? "pause" : "resume",
    ...(lives ? ["maintain", "heal", "reset"] : []),
  ]);
  return PIPELINE_ACTIONS.filter((action) => !hidden.has(action.id));
}

/**
 * Those of tables: what suits at least one of them.
 * @param {readonly (TableRow | undefined)[]} rows
 */
export function suitingTables(rows) {
  const states = new Set(rows.map((row) => row?.state));
  const hidden = new Set([
    ...(states.has("PAUSED") ? [] : ["table-resume"]),
    ...(states.has("FAILING") ? [] : ["table-retry"]),
    ...(states.size === 1 && states.has("PAUSED") ? ["table-pause"] : []),
    ...(rows.length === 1 ? [] : ["table-explain"]),
  ]);
  return TABLE_ACTIONS.filter((action) => !hidden.has(action.id));
}
