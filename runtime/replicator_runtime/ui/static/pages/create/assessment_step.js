// @ts-check
import { html, useEffect, useState } from "../../core/html.js";
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { counted } from "../../core/format.js";
import { download } from "../../core/commands.js";
import { ProblemBox } from "../../components/problem.js";
import { Empty, Loading } from "../../components/empty.js";
import { Tabs } from "../../components/tabs.js";
import { Icon } from "../../components/icons.js";
import { CopyAs } from "../../components/copy_button.js";
import { asMarkdown, byTab } from "./assessment.js";
import { Findings } from "./findings.js";
import { AssessedTables } from "./mapping.js";

/**
 * Step 6: what will go wrong, and how to fix it. Next is blocked while there is an ERROR.
 * @param {{store: import("./draft_store.js").DraftStore, config: any, control: import("./wizard.js").StepControl}} props
 */
export function AssessmentStep({ store, config, control }) {
  const written = JSON.stringify(config);
  const [asked, setAsked] = useState(written);
  const found = useResource(async (signal) => {
    await store.save();
    return /** @type {import("./assessment.js").Assessment} */ ((await request("POST", `${store.url}/assessPipeline`, { signal })).data);
  }, [asked]);
  const assessed = found.data;
  const tabs = assessed ? byTab(assessed) : null;
  const stale = asked !== written;
  const why = !found.data ? (found.loading ? "The assessment is not finished." : "The assessment has failed: fix what it says, and refresh.") : stale ? "The config was changed: refresh the assessment." : tabs?.errors ? `Fix ${counted(tabs.errors, "error")} first, then refresh.` : "";
  useEffect(() => control.block(why), [why]);
  const refresh = () => (stale ? setAsked(written) : found.reload());
  const url = `${store.url}/assessPipeline`;
  return html`<div class="row toolbar">
      <span class="gap" role="status">${found.loading ? "Assessing…" : tabs ? html`<${Verdict} errors=${tabs.errors} tables=${tabs.tables.length} stale=${stale} />` : ""}</span>
      ${assessed && html`<button type="button" class="quiet small" onClick=${() => download(`${store.name}-assessment.md`, asMarkdown(store.name, assessed), "text/markdown")}><${Icon} name="download" />Markdown</button>`}
      <${CopyAs} words=${["assess", `${store.name}.json`]} method="POST" url=${url} />
      <button type="button" class="small" disabled=${found.loading} onClick=${refresh}><${Icon} name="refresh" />Refresh</button>
    </div>
    ${found.problem && html`<${ProblemBox} problem=${found.problem} retry=${refresh} title="The pipeline cannot be assessed" />`}
    ${found.loading && html`<${Loading} what="Connecting to source and target, and looking at every table" />`}
    ${tabs && !found.loading && html`<${Result} tabs=${tabs} store=${store} />`}`;
}

/** @param {{errors: number, tables: number, stale: boolean}} props */
function Verdict({ errors, tables, stale }) {
  if (stale) return html`<span class="wrong-line"><${Icon} name="warning" />The config was changed since.</span>`;
  if (errors) return html`<span class="wrong-line"><${Icon} name="error" />${counted(errors, "error")} to fix before the pipeline can run.</span>`;
  return html`<span class="good-line"><${Icon} name="ok" />${counted(tables, "table")} can be replicated.</span>`;
}

/** @param {{tabs: any, store: any}} props */
function Result({ tabs, store }) {
  const counts = /** @type {[string, string, any[]][]} */ ([
    ["schema", "Schema issues", tabs.schema],
    ["features", "Missing features", tabs.features],
    ["connectivity", "Connectivity issues", tabs.connectivity],
    ["notes", "Notes", tabs.notes],
  ]);
  const lossy = tabs.tables.filter((/** @type {any} */ one) => one.numColumnsNotSupported || one.numColumnsPartiallySupported).length;
  const first = ["connectivity", "features"].find((key) => counts.find(([one]) => one === key)?.[2].some((one) => one.severity === "ERROR")) ?? "schema";
  const [shown, setShown] = useState(first);
  const list = counts.map(([key, label, findings]) => ({ key, label: html`${label} <${Count} findings=${findings} more=${key === "schema" ? lossy : 0} />` }));
  const findings = counts.find(([key]) => key === shown)?.[2] ?? [];
  return html`<${Tabs} label="Kinds of findings" tabs=${list} shown=${shown} onShow=${setShown}>
    ${findings.length > 0 && html`<${Findings} findings=${findings} />`}
    ${shown === "schema" && tabs.tables.length > 0 && html`<${AssessedTables} tables=${tabs.tables} store=${store} />`}
    ${findings.length === 0 && (shown !== "schema" || tabs.tables.length === 0) && html`<${Empty} title="Nothing found"><p>${NOTHING[shown]}</p></${Empty}>`}
  </${Tabs}>`;
}

/** @type {Record<string, string>} */
const NOTHING = { schema: "No table was assessed.", features: "Source and target have what the pipeline needs.", connectivity: "Source and target can be reached.", notes: "There is nothing else to know." };

/** @param {{findings: import("./assessment.js").Finding[], more: number}} props */
function Count({ findings, more }) {
  const tone = findings.some((one) => one.severity === "ERROR") ? "bad" : findings.some((one) => one.severity === "WARNING") || more ? "warn" : "";
  return html`<span class=${`count ${tone}`}>${findings.length + more}</span>`;
}
