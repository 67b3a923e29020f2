// @ts-check
/** Every change that was asked for, and what was answered. */
import { html, useEffect, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { asProblem } from "../../core/resource.js";
import { setQuery } from "../../core/router.js";
import { Empty, Loading } from "../../components/empty.js";
import { ProblemBox } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";

/** @param {{ query: URLSearchParams }} props */
export function Audit({ query }) {
  const text = query.get("search") ?? "";
  const [entries, setEntries] = useState(/** @type {any[] | null} */ (null));
  const [next, setNext] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  /** @param {string} url */
  const load = (url) =>
    request("GET", url).then(
      (answer) => {
        setEntries((known) => [...(known ?? []), ...answer.data]);
        setNext(answer.next);
      },
      (error) => setProblem(asProblem(error)),
    );
  useEffect(() => void load("/v1/audit?limit=100"), []);
  if (problem) return html`<${ProblemBox} problem=${problem} />`;
  if (!entries) return html`<${Loading} what="Entries are loaded" />`;
  if (entries.length === 0) return html`<${Empty} title="No changes yet"><p>Each change that someone asks this service for is listed here.</p></${Empty}>`;
  const wanted = text.toLowerCase();
  const shown = entries.filter((one) => !wanted || [one.by, one.operation, one.path, one.code].join(" ").toLowerCase().includes(wanted));
  return html`
    <div class="toolbar"><label class="search"><span class="off-screen">Search the audit log</span><input type="search" placeholder="Search by who, operation, path or code" value=${text} onInput=${(/** @type {any} */ event) => setQuery({ search: event.target.value })} /></label>
      <span class="muted" role="status">${shown.length} of ${entries.length} entries${next ? " loaded so far" : ""}</span></div>
    <div class="scroll-x panel tight" tabindex="0" role="region" aria-label="Audit log"><table class="plain"><thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">Operation</th><th scope="col">Path</th><th scope="col" class="end">Answer</th></tr></thead>
      <tbody>${shown.map((one) => html`<tr key=${one.id}><td><${Ago} at=${one.at} /></td><td>${one.by}</td><td>${one.operation}</td><td><code>${one.path}</code></td><td class="end">${one.status}${one.code && html` <code>${one.code}</code>`}</td></tr>`)}</tbody></table></div>
    ${next && html`<p><button type="button" onClick=${() => load(next)}>Show earlier entries</button></p>`}`;
}
