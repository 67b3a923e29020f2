// @ts-check
/** The start page: every pipeline of a namespace, those first that need someone. */
import { html, useEffect, useMemo } from "../../core/html.js";
import { here, setQuery } from "../../core/router.js";
import { asProblem } from "../../core/resource.js";
import { counted } from "../../core/format.js";
import { Empty, Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { StaleBanner } from "../../live/stale.js";
import { FleetLive } from "../../live/fleet_live.js";
import { Places } from "../../actions/places.js";
import { COUNTERS, inOrder } from "./fleet_order.js";
import { FleetTable } from "./fleet_table.js";

/** @param {{ values: Record<string, string>, query: URLSearchParams }} props */
export default function FleetPage({ values, query }) {
  const namespace = values["namespace"] ?? "default";
  const live = useMemo(() => new FleetLive(namespace), [namespace]);
  useEffect(() => {
    live.start();
    return () => live.stop();
  }, [live]);
  return html`<div class="fleet">
    <div class="page-head"><h1>Pipelines</h1>
      <a class="button primary" href=${here("create")}><${Icon} name="plus" />Create</a></div>
    <${StaleBanner} stream=${live.stream} polling=${live.polling} />
    <${Found} live=${live} query=${query} namespace=${namespace} />
    <${Places} />
  </div>`;
}

/** @param {{ live: FleetLive, query: URLSearchParams, namespace: string }} props */
function Found({ live, query, namespace }) {
  void live.rows.version.value;
  const problem = live.problem.value;
  if (!live.loaded.value) {
    return problem ? html`<${ProblemBox} problem=${asProblem(problem)} retry=${() => live.load()} />` : html`<${Loading} what="Pipelines are loaded" />`;
  }
  const items = [...live.rows.rows.values()];
  if (items.length === 0) return html`<${NoPipelines} />`;
  const text = query.get("search") ?? "";
  const only = query.get("show") ?? "";
  const found = inOrder(items, text, only);
  return html`
    <${Counters} items=${items} only=${only} />
    <div class="toolbar">
      <label class="search"><${Icon} name="search" /><span class="off-screen">Search pipelines</span>
        <input type="search" placeholder="Search by name or error" value=${text}
          onInput=${(/** @type {any} */ event) => setQuery({ search: event.target.value })} /></label>
      <span class="muted" role="status">${found.length === items.length ? counted(items.length, "pipeline") : `${found.length} of ${counted(items.length, "pipeline")}`}</span>
    </div>
    ${found.length === 0
      ? html`<${Empty} title="No pipeline is like that" action=${html`<button type="button" onClick=${() => setQuery({ search: null, show: null })}>Show all</button>`}><p>${items.length} are in this namespace.</p></${Empty}>`
      : html`<${FleetTable} live=${live} names=${found.map((item) => item.name)} namespace=${namespace} />`}`;
}

const NoPipelines = () => html`<${Empty} title="No pipelines yet"
  action=${html`<a class="button primary" href=${here("create")}>Create a pipeline</a>`}>
  <p>A pipeline copies the tables of a source into a target and then follows every change.
    Seven steps create one; each is saved as you type.</p>
  <p>One that exists as a file is imported in the first step.</p>
</${Empty}>`;

/** @param {{ items: import("../../live/shapes.js").PipelineItem[], only: string }} props */
function Counters({ items, only }) {
  return html`<div class="counters" role="group" aria-label="Show pipelines by state">
    ${COUNTERS.map((counter) => {
      const count = items.filter(counter.holds).length;
      const pressed = only === counter.id;
      return html`<button key=${counter.id} type="button" class=${`counter tone-${count > 0 ? counter.tone : "none"}`} aria-pressed=${pressed}
        onClick=${() => setQuery({ show: pressed ? null : counter.id })}>
        <span class="counter-number">${count}</span><span class="counter-word"><${Icon} name=${counter.icon} />${counter.label}</span>
      </button>`;
    })}
  </div>`;
}
