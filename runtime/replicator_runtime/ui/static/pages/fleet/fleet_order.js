// @ts-check
/** Which pipelines are shown, in which order. */
import { isFailing, pipelineState } from "../../live/states.js";

/** @typedef {import("../../live/shapes.js").PipelineItem} PipelineItem */

/** Whether someone has to do something. @param {PipelineItem} item */
export const needsYou = (item) => (item.needsYou?.length ?? 0) > 0;

/** @param {...string} ids @returns {(item: PipelineItem) => boolean} */
const inState = (...ids) => (item) => ids.includes(pipelineState(item).id);

/** @type {{ id: string, label: string, icon: string, tone: string, holds: (item: PipelineItem) => boolean }[]} */
export const COUNTERS = [
  { id: "needs", label: "Needs you", icon: "warning", tone: "warn", holds: needsYou },
  { id: "failing", label: "Failing", icon: "error", tone: "bad", holds: isFailing },
  { id: "running", label: "Running", icon: "running", tone: "good", holds: inState("running") },
  { id: "snapshotting", label: "Snapshotting", icon: "download", tone: "busy", holds: inState("snapshotting") },
  { id: "paused", label: "Paused", icon: "paused", tone: "warn", holds: inState("paused") },
  { id: "stopped", label: "Stopped", icon: "stopped", tone: "none", holds: inState("stopped") },
];

/** Lower comes first. @param {PipelineItem} item */
function rank(item) {
  if (isFailing(item)) return needsYou(item) ? 0 : 1;
  if (needsYou(item)) return 2;
  if (item.sloBroken) return 3;
  return { snapshotting: 4, running: 5 }[pipelineState(item).id] ?? 6;
}

/**
 * Those that match, the ones first that need someone, then by lag.
 * @param {readonly PipelineItem[]} items
 * @param {string} text
 * @param {string} only the id of a counter; all when empty
 */
export function inOrder(items, text, only) {
  const wanted = text.trim().toLowerCase();
  const holds = COUNTERS.find((one) => one.id === only)?.holds ?? (() => true);
  return items
    .filter((item) => holds(item) && (!wanted || words(item).includes(wanted)))
    .sort((a, b) => rank(a) - rank(b) || (b.worstLagSeconds ?? -1) - (a.worstLagSeconds ?? -1) || a.name.localeCompare(b.name));
}

/** @param {PipelineItem} item */
const words = (item) =>
  [item.name, item.lastError?.code, item.lastError?.message, ...(item.needsYou ?? []).map((one) => one.text)].join(" ").toLowerCase();
