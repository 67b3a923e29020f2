// @ts-check
/** One chart, and the same as a table. */
import uPlot from "uplot";
import { html, useEffect, useRef, useState } from "../../core/html.js";
import { theme } from "../../core/theme.js";

/** @typedef {import("../../live/samples.js").Samples} Samples */
/** @typedef {import("../../live/samples.js").Sample} Sample */
/** @typedef {{ key: Exclude<keyof Sample, "at">, label: string, tone: string }} Line */

const HEIGHT = 200;
const IN_TABLE = 60;
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: "UTC" });

/** The library's own styles, once a page. */
function loadStyles() {
  const href = new URL("../../vendor/uPlot.min.css", import.meta.url).href;
  if (document.querySelector(`link[href="${href}"]`)) return;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  document.head.append(link);
}

/** @param {{ title: string, about: string, lines: Line[], words: (value: number | null) => string, samples: Samples }} props */
export function Chart({ title, about, lines, words, samples }) {
  const [asTable, setAsTable] = useState(false);
  void samples.version.value;
  const last = samples.list[samples.list.length - 1];
  return html`<figure class="panel chart" aria-label=${title}>
    <figcaption class="chart-head"><h2>${title}</h2><p class="muted">${about}</p>
      <p class="legend">${lines.map((line) => html`<span key=${line.key}><span class=${`swatch tone-${line.tone}`} aria-hidden="true"></span>${line.label}: <strong>${words(last?.[line.key] ?? null)}</strong></span>`)}</p>
      <button type="button" class="small" aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>${asTable ? "Show as chart" : "Show as table"}</button>
    </figcaption>
    ${asTable ? html`<${AsTable} title=${title} lines=${lines} words=${words} samples=${samples} />` : html`<${Plot} title=${title} lines=${lines} words=${words} samples=${samples} />`}
  </figure>`;
}

/** @param {{ title: string, lines: Line[], words: (value: number | null) => string, samples: Samples }} props */
function AsTable({ title, lines, words, samples }) {
  void samples.version.value;
  const newest = samples.list.slice(-IN_TABLE).reverse();
  return html`<div class="scroll-x chart-table" tabindex="0" role="region" aria-label=${`${title} as a table`}><table class="plain">
    <thead><tr><th scope="col">Time (UTC)</th>${lines.map((line) => html`<th scope="col" class="end">${line.label}</th>`)}</tr></thead>
    <tbody>${newest.map((sample) => html`<tr key=${sample.at}><td>${clock.format(sample.at * 1000)}</td>${lines.map((line) => html`<td class="end">${words(sample[line.key])}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {{ title: string, lines: Line[], words: (value: number | null) => string, samples: Samples }} props */
function Plot({ title, lines, words, samples }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  void samples.version.value;
  const chosen = theme.value;
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    loadStyles();
    const data = () => /** @type {any} */ (samples.columns("at", ...lines.map((line) => line.key)));
    const plot = new uPlot(options(element, lines, words), data(), element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    const end = samples.version.subscribe(() => plot.setData(data()));
    return () => {
      end();
      observer.disconnect();
      plot.destroy();
    };
  }, [chosen, samples]);
  const last = samples.list[samples.list.length - 1];
  const said = lines.map((line) => `${line.label} ${words(last?.[line.key] ?? null)}`).join(", ");
  return html`<div class="plot" ref=${place} role="img" aria-label=${`${title} over time; now: ${said}`}></div>
    ${samples.list.length < 2 && html`<p class="muted">The line begins with the next figures; a run writes them every five seconds.</p>`}`;
}

/**
 * @param {HTMLElement} element @param {Line[]} lines @param {(value: number | null) => string} words
 * @returns {any}
 */
function options(element, lines, words) {
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui, sans-serif" };
  return {
    width: element.clientWidth || 600,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: true, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1) * 1.1] } },
    axes: [{ ...axis, space: 76, values: (/** @type {any} */ _, /** @type {number[]} */ marks) => marks.map((mark) => clock.format(mark * 1000)) }, { ...axis, size: 76, values: (/** @type {any} */ _, /** @type {number[]} */ marks) => marks.map((mark) => words(mark)) }],
    series: [{}, ...lines.map((line, index) => ({ label: line.label, stroke: colour(line.tone), width: 2, dash: index > 0 ? [6, 4] : undefined, points: { show: false }, spanGaps: false }))],
  };
}
