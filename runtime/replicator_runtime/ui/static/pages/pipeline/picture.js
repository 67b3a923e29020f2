// @ts-check
/** The way source → replicator → target as one picture, with rates and lag at each part. */
import { html, useComputed } from "../../core/html.js";
import { bytes, duration, number, rate } from "../../core/format.js";
import { narrow } from "../../live/narrow.js";
import { pipelineState } from "../../live/states.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */
/** @typedef {{ title: string, name: string, tone: string, lines: string[] }} Part */
/** @typedef {{ lines: string[], tone: string, moves: boolean }} Arrow */

/** @param {{ live: PipelineLive }} props */
export function Picture({ live }) {
  const seen = useComputed(() => describe(live));
  const { parts, arrows, words } = seen.value;
  const layout = narrow.value ? TALL : WIDE;
  return html`<figure class="picture">
    <svg viewBox=${`0 0 ${layout.width} ${layout.height}`} role="img" aria-label=${words}>
      ${arrows.map((arrow, index) => html`<${ArrowShape} key=${`arrow-${index}`} arrow=${arrow} at=${layout.arrows[index]} />`)}
      ${parts.map((part, index) => html`<${PartShape} key=${part.title} part=${part} at=${layout.parts[index]} letters=${layout.letters} />`)}
    </svg>
  </figure>`;
}

const WIDE = {
  width: 960, height: 128,
  letters: 33,
  parts: [{ x: 1, y: 1, w: 242, h: 126 }, { x: 359, y: 1, w: 242, h: 126 }, { x: 717, y: 1, w: 242, h: 126 }],
  arrows: [{ x1: 243, y1: 64, x2: 359, y2: 64 }, { x1: 601, y1: 64, x2: 717, y2: 64 }],
};
const TALL = {
  width: 328, height: 444, letters: 46,
  parts: [{ x: 1, y: 1, w: 326, h: 110 }, { x: 1, y: 167, w: 326, h: 110 }, { x: 1, y: 333, w: 326, h: 110 }],
  arrows: [{ x1: 40, y1: 111, x2: 40, y2: 167 }, { x1: 40, y1: 277, x2: 40, y2: 333 }],
};

/** @param {{ part: Part, at: any, letters: number }} props */
function PartShape({ part, at, letters }) {
  return html`<g class=${`picture-part tone-${part.tone}`}>
    <rect x=${at.x} y=${at.y} width=${at.w} height=${at.h} rx="8" />
    <rect class="mark" x=${at.x} y=${at.y + 10} width="3" height=${at.h - 20} />
    <text class="picture-title" x=${at.x + 14} y=${at.y + 21}>${part.title}</text>
    <text class="picture-name" x=${at.x + 14} y=${at.y + 42}>${cut(part.name, Math.floor(letters * 0.75))}</text>
    ${part.lines.slice(0, 4).map((line, index) => html`<text x=${at.x + 14} y=${at.y + 61 + index * 16}>${cut(line, letters)}</text>`)}
  </g>`;
}

/** @param {{ arrow: Arrow, at: any }} props */
function ArrowShape({ arrow, at }) {
  const down = at.x1 === at.x2;
  const [endX, endY] = [at.x2 - (down ? 0 : 8), at.y2 - (down ? 8 : 0)];
  const head = down
    ? `M${at.x2 - 6} ${endY - 4}L${at.x2} ${at.y2 - 2}L${at.x2 + 6} ${endY - 4}`
    : `M${endX - 4} ${at.y2 - 6}L${at.x2 - 2} ${at.y2}L${endX - 4} ${at.y2 + 6}`;
  const middle = (at.x1 + at.x2) / 2;
  const place = (/** @type {number} */ index) =>
    down ? { x: at.x1 + 20, y: (at.y1 + at.y2) / 2 - 5 + index * 18 } : { x: middle, y: at.y1 + (index === 0 ? -12 : 6 + index * 18) };
  return html`<g class=${`picture-arrow tone-${arrow.tone}${arrow.moves ? " moves" : ""}`}>
    <path class="line" d=${`M${at.x1 + (down ? 0 : 4)} ${at.y1 + (down ? 4 : 0)}L${endX + (down ? 0 : 4)} ${endY + (down ? 4 : 0)}`} />
    <path class="head" d=${head} />
    ${arrow.lines.map((line, index) => html`<text x=${place(index).x} y=${place(index).y} text-anchor=${down ? "start" : "middle"}>${line}</text>`)}
  </g>`;
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** What the picture shows, and the same in words. @param {PipelineLive} live */
function describe(live) {
  const item = live.item.value;
  const status = live.status.value ?? {};
  const lives = item?.state === "running" && !["done", "failed"].includes(item.phase ?? "");
  const parts = [sourcePart(item, status), replicatorPart(item, status, lives), targetPart(item, status)];
  const arrows = [readArrow(status, lives), writeArrow(item, status, lives)];
  const words = [parts[0], arrows[0], parts[1], arrows[1], parts[2]]
    .map((one) => ("title" in /** @type {any} */ (one) ? [/** @type {any} */ (one).title, /** @type {any} */ (one).name] : []).concat(/** @type {any} */ (one).lines).filter(Boolean).join(", "))
    .join("; ");
  return { parts: /** @type {Part[]} */ (parts), arrows: /** @type {Arrow[]} */ (arrows), words };
}

/** A path by its end, which says more than its beginning. @param {unknown} where */
const shortened = (where) => (typeof where !== "string" ? "" : where.length > 14 && where.includes("/") ? `…/${where.split("/").filter(Boolean).pop()}` : where);

/** @param {any} config @param {string} type */
function stage(config, type) {
  const found = (config?.stages ?? []).find((/** @type {any} */ one) => one?.plugin?.type === type)?.plugin;
  return { plugin: String(found?.name ?? ""), properties: found?.properties ?? {} };
}

/** @param {any} item @param {Record<string, any>} status @returns {Part} */
function sourcePart(item, status) {
  const { plugin, properties } = stage(item?.config, "cdcSource");
  const source = status["source"] ?? {};
  const where = properties.database ?? properties.path ?? properties.topics ?? properties.host;
  const held = source.heldBytes == null ? "" : `holds ${bytes(source.heldBytes)} of log${source.heldLimitBytes ? ` of ${bytes(source.heldLimitBytes)}` : ""}`;
  const waits = source.waitingBytes ? `${bytes(source.waitingBytes)} wait` : source.waitingChanges ? (source.waitingChanges === 1 ? "1 change waits" : `${number(source.waitingChanges)} changes wait`) : "nothing waits";
  const left = source.secondsLeft == null ? "" : `${duration(source.secondsLeft)} until ${source.limitedBy && source.limitedBy.length < 14 ? source.limitedBy : "its limit"}`;
  const fails = status["sourceState"] === "FAILING";
  const lines = fails ? [`fails: ${status["sourceError"]?.code ?? ""}`, held, left] : [held, status["source"] ? waits : "", left];
  return { title: "Source", name: [plugin, shortened(where)].filter(Boolean).join(" · "), tone: fails ? "bad" : "idle", lines: lines.filter(Boolean) };
}

/** @param {any} item @param {Record<string, any>} status @param {boolean} lives @returns {Part} */
function replicatorPart(item, status, lives) {
  if (!item) return { title: "Replicator", name: "", tone: "idle", lines: [] };
  const state = pipelineState(item);
  const tables = Object.entries(item.tables ?? {}).filter(([, count]) => Number(count) > 0);
  const tone = { running: "good", snapshotting: "busy", starting: "busy", failed: "bad", paused: "warn", retrying: "warn", backoff: "warn" }[state.id] ?? "idle";
  const counts = tables.map(([name, count]) => `${number(Number(count))} ${name.toLowerCase()}`);
  return {
    title: "Replicator", name: state.word, tone,
    lines: [lives ? `${rate(status["rowsPerSecond"]).replace("/s", " rows/s")}` : "", ...counts].filter(Boolean),
  };
}

/** @param {any} item @param {Record<string, any>} status @returns {Part} */
function targetPart(item, status) {
  const { plugin, properties } = stage(item?.config, "cdcTarget");
  const where = properties.path ?? properties.datasetName ?? properties.warehouse ?? properties.catalog;
  const lag = item?.worstLagSeconds;
  const objective = item?.sloRatio == null ? "" : `${item.sloBroken ? "objective broken" : "objective kept"}: ${Math.floor(item.sloRatio * 1000) / 10} % fresh`;
  const current = status["currentAt"] && lag == null ? `current at ${new Date(status["currentAt"]).toISOString().slice(11, 19)} UTC` : "";
  return {
    title: "Target", name: [plugin, shortened(where)].filter(Boolean).join(" · "),
    tone: item?.sloBroken ? "bad" : "idle",
    lines: [lag == null ? "" : `slowest table ${duration(lag)} late`, objective, current].filter(Boolean),
  };
}

/** @param {Record<string, any>} status @param {boolean} lives @returns {Arrow} */
function readArrow(status, lives) {
  if (!lives) return { lines: ["not read"], tone: "idle", moves: false };
  const late = status["readLagSeconds"];
  const fails = status["sourceState"] === "FAILING";
  return { lines: [fails ? "cannot be read" : "reads", late == null ? "" : `${duration(late)} late`].filter(Boolean), tone: fails ? "bad" : "good", moves: !fails };
}

/** @param {any} item @param {Record<string, any>} status @param {boolean} lives @returns {Arrow} */
function writeArrow(item, status, lives) {
  if (!lives) return { lines: ["nothing written"], tone: "idle", moves: false };
  const rows = status["rowsPerSecond"];
  const lag = status["lagSeconds"];
  const apply = lag == null ? null : Math.max(0, lag - (status["readLagSeconds"] ?? 0));
  const failing = (item?.tables?.FAILING ?? 0) > 0;
  return { lines: [rows == null ? "writes" : `${number(rows)} rows/s`, apply == null ? "" : `${duration(apply)} to apply`].filter(Boolean), tone: failing ? "warn" : "good", moves: rows > 0 };
}
