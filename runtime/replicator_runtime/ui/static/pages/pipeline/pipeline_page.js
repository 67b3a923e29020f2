// @ts-check
/** One pipeline: the way from source to target, and what there is to see and to do, each at an address of its own. */
import { html, useEffect, useMemo } from "../../core/html.js";
import { go, here } from "../../core/router.js";
import { asProblem } from "../../core/resource.js";
import { Empty, Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox, withCode } from "../../components/problem.js";
import { StaleBanner } from "../../live/stale.js";
import { PipelineLive } from "../../live/pipeline_live.js";
import { Badge, pipelineState } from "../../live/states.js";
import { Ago } from "../../live/clock.js";
import { Places } from "../../actions/places.js";
import { act, menuItems } from "../../actions/ask.js";
import { suiting } from "../../actions/suiting.js";
import { readable, whyNot } from "../../actions/actions.js";
import { session } from "../../core/session.js";
import { openMenu } from "../../parts/menu.js";
import { Picture } from "./picture.js";
import { PipelineTabs, shownTab } from "./pipeline_tabs.js";

/** @typedef {import("../../live/shapes.js").PipelineItem} PipelineItem */

/** @param {{ values: Record<string, string>, query: URLSearchParams }} props */
export default function PipelinePage({ values, query }) {
  const namespace = values["namespace"] ?? "default";
  const name = values["name"] ?? "";
  const live = useMemo(() => new PipelineLive(namespace, name), [namespace, name]);
  useEffect(() => {
    live.start();
    return () => live.stop();
  }, [live]);
  const tab = shownTab(values["tab"]);
  return html`<div class="pipeline">
    <p class="crumbs"><a href=${here("pipelines")}>Pipelines</a> <span aria-hidden="true">›</span></p>
    <${Head} live=${live} />
    <${StaleBanner} stream=${live.stream} polling=${live.polling} />
    <${Body} live=${live} tab=${tab} query=${query} />
    <${Places} />
  </div>`;
}

/** The actions that have a button; the others are in the menu. */
const BUTTONS = ["start", "stop", "pause", "resume"];

/** @param {{ live: PipelineLive }} props */
function Head({ live }) {
  const item = live.item.value;
  const target = { namespace: live.namespace, name: live.name };
  if (!item) return html`<div class="page-head"><h1>${live.name}</h1></div>`;
  const actions = suiting(item);
  const rest = actions.filter((action) => !BUTTONS.includes(action.id));
  return html`<div class="page-head">
    <h1>${live.name}</h1> <${Badge} state=${pipelineState(item)} />
    <span class="gap"></span>
    <div class="row">
      ${actions
        .filter((action) => BUTTONS.includes(action.id))
        .map((action) => {
          const refused = whyNot(action, session.value?.role);
          return html`<button key=${action.id} type="button" disabled=${Boolean(refused)} title=${refused ?? action.effect} onClick=${() => act(target, action)}>
            <${Icon} name=${{ start: "running", stop: "stopped", pause: "paused", resume: "running" }[action.id]} />${action.label}</button>`;
        })}
      <button type="button" aria-haspopup="menu" onClick=${(/** @type {MouseEvent} */ event) =>
        openMenu(menuItems(target, rest), /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect(), `More actions for ${live.name}`)}>
        More<${Icon} name="down" /></button>
    </div>
  </div>`;
}

/** @param {{ live: PipelineLive, tab: string, query: URLSearchParams }} props */
function Body({ live, tab, query }) {
  const problem = live.problem.value;
  if (live.gone.value) {
    return html`<${Empty} title="This pipeline is deleted" action=${html`<a class="button" href=${here("pipelines")}>Show pipelines</a>`}>
      <p>What it wrote at the target stays unless it was deleted there, too.</p></${Empty}>`;
  }
  if (!live.item.value) {
    if (!problem) return html`<${Loading} what="The pipeline is loaded" />`;
    const found = asProblem(problem);
    if (found.status === 404) {
      return html`<${Empty} title="There is no such pipeline" action=${html`<a class="button" href=${here("pipelines")}>Show pipelines</a>`}>
        <p>${found.message}</p></${Empty}>`;
    }
    return html`<${ProblemBox} problem=${found} retry=${() => live.load()} />`;
  }
  return html`
    <${Picture} live=${live} />
    <${NeedsYou} live=${live} />
    <${PipelineTabs} live=${live} tab=${tab} query=${query} go=${(/** @type {string} */ key) => go(here("pipelines", live.name, key))} />`;
}

/** Why someone should look, and the last error with its next step. @param {{ live: PipelineLive }} props */
function NeedsYou({ live }) {
  const item = live.item.value;
  const error = item?.lastError;
  const needs = (item?.needsYou ?? []).filter((one) => one.text !== error?.message);
  if (needs.length === 0 && !error) return null;
  return html`<section class="note warn" aria-label="What needs you"><${Icon} name="warning" /><div>
    ${needs.length > 0 && html`<ul>${needs.map((one) => html`<li key=${one.reason}>${withCode(one.text)} <${WhereTo} reason=${one.reason} name=${live.name} /></li>`)}</ul>`}
    ${error && html`<p><code>${error.code || "error"}</code> ${error.table && html`<code>${readable(error.table)}</code>: `}${withCode(error.message)}</p>`}
    ${error?.hint && html`<p>Next: ${withCode(error.hint)}</p>`}
    ${item?.statusAt && html`<p class="muted">Its run wrote this <${Ago} at=${item.statusAt} />.</p>`}
  </div></section>`;
}

/** @type {Record<string, [string, string]>} */
const WHERE = {
  decisions: ["schema-changes", "Decide"],
  tablesFailing: ["errors", "Show errors"],
  sourceFailing: ["errors", "Show errors"],
  failed: ["logs", "Show logs"],
  processEnded: ["logs", "Show logs"],
  rowsPutAside: ["errors", "Show rows put aside"],
  differs: ["tables", "Show tables"],
};

/** @param {{ reason: string, name: string }} props */
function WhereTo({ reason, name }) {
  const found = WHERE[reason];
  return found ? html`<a href=${here("pipelines", name, found[0])}>${found[1]}</a>` : null;
}
