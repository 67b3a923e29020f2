// @ts-check
/** What runs have logged: filtered by the service, the newest last; a bounded number of lines is kept in the page. */
import { html, useEffect, useRef, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { setQuery } from "../../core/router.js";
import { asProblem } from "../../core/resource.js";
import { number } from "../../core/format.js";
import { download } from "../../core/commands.js";
import { Empty, Loading } from "../../components/empty.js";
import { ProblemBox } from "../../components/problem.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */
/** @typedef {Record<string, any> & { ts: string, level: string, event: string }} Line */

const A_PAGE = 200;
const MOST = 2000;
const EVERY = 2000;
const LEVELS = ["debug", "info", "warning", "error"];
const clock = new Intl.DateTimeFormat("en-GB", { dateStyle: "short", timeStyle: "medium", timeZone: "UTC" });

/** @param {{ live: PipelineLive, query: URLSearchParams }} props */
export default function LogsTab({ live, query }) {
  const wanted = { level: query.get("level") ?? "info", text: query.get("text") ?? "", table: query.get("table") ?? "" };
  const [lines, setLines] = useState(/** @type {Line[] | null} */ (null));
  const [earlier, setEarlier] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [follows, setFollows] = useState(false);
  const url = `${live.url("logs")}?${new URLSearchParams({ ...wanted, limit: String(A_PAGE) })}`;

  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(() => {
      setLines(null);
      request("GET", url, { signal: control.signal }).then(
        (answer) => { setLines(answer.data.reverse()); setEarlier(answer.next); setProblem(null); },
        (error) => control.signal.aborted || setProblem(asProblem(error)),
      );
    }, 250);
    return () => { clearTimeout(timer); control.abort(); };
  }, [url]);

  useEffect(() => {
    if (!follows) return undefined;
    const control = new AbortController();
    const timer = setInterval(() => {
      if (document.visibilityState !== "visible") return;
      request("GET", url, { signal: control.signal }).then((answer) => setLines((known) => joined(known ?? [], answer.data.reverse())), () => {});
    }, EVERY);
    return () => { clearInterval(timer); control.abort(); };
  }, [url, follows]);

  const more = () => earlier && request("GET", earlier).then(
    (answer) => { setLines((known) => [...answer.data.reverse(), ...(known ?? [])].slice(0, MOST)); setEarlier(answer.next); },
    (error) => setProblem(asProblem(error)),
  );
  return html`
    <div class="toolbar">
      <label class="sort-by"><span>Level</span><select value=${wanted.level} onChange=${(/** @type {any} */ event) => setQuery({ level: event.target.value })}>
        ${LEVELS.map((level) => html`<option key=${level} value=${level}>${level}${level === "error" ? "" : " and above"}</option>`)}</select></label>
      <label class="search"><span class="off-screen">Text in the line</span><input type="search" placeholder="Text" value=${wanted.text} onInput=${(/** @type {any} */ event) => setQuery({ text: event.target.value })} /></label>
      <label class="search"><span class="off-screen">Table, as schema.table</span><input type="search" placeholder="Table" value=${wanted.table} onInput=${(/** @type {any} */ event) => setQuery({ table: event.target.value })} /></label>
      <label class="check"><input type="checkbox" checked=${follows} onChange=${(/** @type {any} */ event) => setFollows(event.target.checked)} /> Follow</label>
      <button type="button" class="small" disabled=${!lines?.length} onClick=${() => download(`${live.name}-log.jsonl`, (lines ?? []).map((line) => JSON.stringify(line)).join("\n"), "application/x-ndjson")}>Download</button>
    </div>
    ${problem && html`<${ProblemBox} problem=${problem} />`}
    ${lines === null ? !problem && html`<${Loading} what="Lines are loaded" />` : lines.length === 0
      ? html`<${Empty} title="No lines"><p>${wanted.text || wanted.table || wanted.level !== "debug" ? "No line is like that." : "No run has logged anything yet."} ${earlier ? html`<button type="button" class="small" onClick=${more}>Look further back</button>` : ""}</p></${Empty}>`
      : html`<${Lines} lines=${lines} follows=${follows} earlier=${earlier && lines.length < MOST ? more : null} />`}`;
}

/** What is new after what is known. @param {Line[]} known @param {Line[]} newest */
function joined(known, newest) {
  const last = known[known.length - 1];
  if (!last) return newest;
  const text = JSON.stringify(last);
  const at = newest.findLastIndex((line) => JSON.stringify(line) === text);
  const fresh = at >= 0 ? newest.slice(at + 1) : newest.filter((line) => line.ts > last.ts);
  return fresh.length === 0 ? known : [...known, ...fresh].slice(-MOST);
}

/** @param {{ lines: Line[], follows: boolean, earlier: (() => void) | null }} props */
function Lines({ lines, follows, earlier }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    const element = box.current;
    if (element && (follows || element.dataset["seen"] !== "yes")) element.scrollTop = element.scrollHeight;
    if (element) element.dataset["seen"] = "yes";
  }, [lines, follows]);
  return html`<div class="log" tabindex="0" role="log" aria-live="off" aria-label="Log lines, the newest last" ref=${box}>
    ${earlier && html`<button type="button" class="small" onClick=${earlier}>Show earlier lines</button>`}
    <ol>${lines.map((line, index) => html`<li key=${`${line.ts}-${index}`} class=${`level-${line.level}`}>
      <time datetime=${line.ts} title=${line.ts}>${line.ts ? clock.format(new Date(line.ts)) : ""}</time>${" "}
      <span class="level">${line.level}</span> <span class="line"><strong>${line.event}</strong> ${rest(line)}</span></li>`)}</ol>
    <p class="muted">${number(lines.length)} lines</p>
  </div>`;
}

const SHOWN_ELSEWHERE = new Set(["ts", "level", "event", "pipeline", "namespace", "run_id"]);

/** The event's own keys. @param {Line} line */
const rest = (line) =>
  Object.entries(line).filter(([key]) => !SHOWN_ELSEWHERE.has(key)).map(([key, value]) => html`<span class="pair" key=${key}><span class="muted">${key}=</span>${typeof value === "string" ? value : JSON.stringify(value)} </span>`);
