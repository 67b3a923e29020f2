// @ts-check
/** Lag, rate and held log over time, as they arrived while the page was open. */
import { html } from "../../core/html.js";
import { bytes, duration, number } from "../../core/format.js";
import { Chart } from "./chart.js";

/** @typedef {import("./chart.js").Line} Line */

/** @type {{ title: string, about: string, lines: Line[], words: (value: number | null) => string }[]} */
const CHARTS = [
  {
    title: "Lag", about: "The age of the oldest change that is not applied, and the part of it that is reading.",
    lines: [{ key: "lag", label: "Lag", tone: "accent" }, { key: "readLag", label: "Of which reading", tone: "warn" }],
    words: duration,
  },
  { title: "Rows a second", about: "Rows copied and changes applied.", lines: [{ key: "rate", label: "Rows/s", tone: "good" }], words: (value) => (value == null ? "–" : number(value)) },
  {
    title: "Log at the source", about: "What the source keeps for this replicator, and what waits to be read.",
    lines: [{ key: "held", label: "Held", tone: "bad" }, { key: "waiting", label: "Waiting", tone: "busy" }],
    words: bytes,
  },
];

/** @param {{ live: import("../../live/pipeline_live.js").PipelineLive }} props */
export default function MonitoringTab({ live }) {
  return html`<div class="charts">
    <p class="muted">Collected since this page was opened. For months use <code>/metrics</code> with Prometheus.</p>
    ${CHARTS.map((chart) => html`<${Chart} key=${chart.title} ...${chart} samples=${live.samples} />`)}
  </div>`;
}
