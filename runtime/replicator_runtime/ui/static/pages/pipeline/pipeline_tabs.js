// @ts-check
/** The parts of a pipeline's page; each has an address, and is loaded when it is shown. */
import { html, useEffect, useRef, useState } from "../../core/html.js";
import { here } from "../../core/router.js";
import { asProblem } from "../../core/resource.js";
import { Loading } from "../../components/empty.js";
import { ProblemBox } from "../../components/problem.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */

/** @type {{ key: string, label: string, load: () => Promise<{ default: any }> }[]} */
const TABS = [
  { key: "tables", label: "Tables", load: () => import("./tables_tab.js") },
  { key: "monitoring", label: "Monitoring", load: () => import("./monitoring_tab.js") },
  { key: "activity", label: "Activity", load: () => import("./activity_tab.js") },
  { key: "schema-changes", label: "Schema changes", load: () => import("./schema_changes_tab.js") },
  { key: "errors", label: "Errors", load: () => import("./errors_tab.js") },
  { key: "offsets", label: "Offsets", load: () => import("./offsets_tab.js") },
  { key: "logs", label: "Logs", load: () => import("./logs_tab.js") },
  { key: "configuration", label: "Configuration", load: () => import("./configuration_tab.js") },
  { key: "lineage", label: "Lineage", load: () => import("./lineage_tab.js") },
];

/** @param {string | undefined} key */
export const shownTab = (key) => TABS.find((tab) => tab.key === key)?.key ?? "tables";

/** @param {{ live: PipelineLive, tab: string, query: URLSearchParams, go: (key: string) => void }} props */
export function PipelineTabs({ live, tab, query, go }) {
  const part = useRef(/** @type {HTMLElement | null} */ (null));
  const current = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const link = current.current;
    const bar = link?.closest("nav");
    if (link && bar) bar.scrollLeft = link.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2;
  }, [tab]);
  /** @param {MouseEvent} event @param {string} key */
  const show = (event, key) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const top = window.scrollY;
    go(key);
    // The router moves to the top, and the focus to the beginning of the page; only this part is new.
    requestAnimationFrame(() => {
      window.scrollTo(0, top);
      part.current?.focus({ preventScroll: true });
    });
  };
  const label = TABS.find((one) => one.key === tab)?.label;
  return html`
    <nav class="part-tabs" aria-label="Parts of this pipeline"><ul>
      ${TABS.map((one) => html`<li key=${one.key}><a href=${here("pipelines", live.name, one.key)} ref=${one.key === tab ? current : undefined}
        aria-current=${one.key === tab ? "page" : undefined} onClick=${(/** @type {MouseEvent} */ event) => show(event, one.key)}>${one.label}</a></li>`)}
    </ul></nav>
    <section class="part" tabindex="-1" ref=${part} aria-label=${`${label} of ${live.name}`}><${Part} key=${tab} tab=${tab} live=${live} query=${query} /></section>`;
}

/** @param {{ tab: string, live: PipelineLive, query: URLSearchParams }} props */
function Part({ tab, live, query }) {
  const [found, setFound] = useState(/** @type {{ component?: any, error?: unknown }} */ ({}));
  useEffect(() => {
    let current = true;
    TABS.find((one) => one.key === tab)
      ?.load()
      .then(
        (module) => current && setFound({ component: module.default }),
        (error) => current && setFound({ error }),
      );
    return () => {
      current = false;
    };
  }, [tab]);
  if (found.error) return html`<${ProblemBox} problem=${asProblem(found.error)} title="This part cannot be loaded" />`;
  if (!found.component) return html`<${Loading} />`;
  return html`<${found.component} live=${live} query=${query} />`;
}
