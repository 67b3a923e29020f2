// @ts-check
/** The action that does what a hint advises: its command is named between backticks. */
import { actionOf } from "../../actions/suiting.js";

/** @type {[RegExp, string][]} */
const ADVISED = [
  [/^replicator table retry\b/, "table-retry"],
  [/^replicator table resync\b/, "table-resync"],
  [/^replicator table resume\b/, "table-resume"],
  [/^replicator table pause\b/, "table-pause"],
  [/^replicator verify\b.*--repair/, "table-repair"],
  [/^replicator verify\b/, "table-verify"],
  [/^replicator heal\b/, "heal"],
  [/^replicator reset\b/, "reset"],
  [/^replicator resume\b/, "resume"],
  [/^replicator run\b/, "start"],
  [/^replicator maintain\b/, "maintain"],
];

/**
 * Null where the hint names no command that the page has a button for.
 * @param {string} hint
 * @param {import("../../live/shapes.js").PipelineItem | null} item
 */
export function advised(hint, item) {
  const commands = hint.split("`").filter((_, index) => index % 2 === 1);
  for (const command of commands) {
    const found = ADVISED.find(([pattern]) => pattern.test(command));
    if (!found) continue;
    if (found[1] === "start" && item?.wanted === "started") return actionOf("restart");
    return actionOf(found[1]);
  }
  return null;
}
