// @ts-check
import { html } from "../core/html.js";
import { Icon } from "./icons.js";

/** @typedef {"good" | "busy" | "warn" | "bad" | "idle"} Tone */

/** What each state looks like: icon, word and tone. @type {Record<string, [Tone, string]>} */
const STATES = {
  running: ["good", "running"],
  replicating: ["good", "running"],
  ok: ["good", "ok"],
  done: ["good", "ok"],
  yes: ["good", "ok"],
  starting: ["busy", "refresh"],
  snapshotting: ["busy", "download"],
  pending: ["idle", "waiting"],
  waiting: ["idle", "waiting"],
  backoff: ["warn", "waiting"],
  retrying: ["warn", "refresh"],
  stopping: ["busy", "stopped"],
  warn: ["warn", "warning"],
  warning: ["warn", "warning"],
  partial: ["warn", "warning"],
  paused: ["warn", "paused"],
  stopped: ["idle", "stopped"],
  skipped: ["idle", "right"],
  info: ["busy", "info"],
  failed: ["bad", "error"],
  failing: ["bad", "error"],
  fail: ["bad", "error"],
  error: ["bad", "error"],
  no: ["bad", "error"],
  lost: ["bad", "error"],
  deleting: ["warn", "trash"],
  cancelled: ["idle", "close"],
};

/**
 * A state: icon and word, and a colour that only repeats them.
 * @param {{state: string, label?: string, title?: string}} props
 */
export function StatusBadge({ state, label, title }) {
  const [tone, icon] = STATES[state.toLowerCase()] ?? ["idle", "info"];
  return html`<span class=${`badge ${tone}`} title=${title}><${Icon} name=${icon} />${label ?? state.toLowerCase()}</span>`;
}
