// @ts-check
import { html, useEffect, useMemo, useState } from "../../core/html.js";
import { context, newKey, request } from "../../core/api.js";
import { cli, curl, download } from "../../core/commands.js";
import { go, here } from "../../core/router.js";
import { may } from "../../core/session.js";
import { counted } from "../../core/format.js";
import { asProblem } from "../../core/resource.js";
import { CopyButton } from "../../components/copy_button.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { say } from "../../components/toast.js";
import { reference } from "../../components/form/secret_field.js";
import { pluginOf } from "./config_edits.js";
import { FirstCopy } from "./estimate.js";
import { useSourceTables } from "./source_tables.js";
import { TableSelection, tableName } from "./table_selection.js";

/**
 * Step 7: the whole config; deploy, save, export.
 * @param {{store: import("./draft_store.js").DraftStore, config: any, control: import("./wizard.js").StepControl}} props
 */
export function SummaryStep({ store, config, control }) {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const [start, setStart] = useState(true);
  const [key] = useState(newKey);
  useEffect(() => control.block(""), []);
  const url = context(store.namespace, "pipelines");
  const body = { draft: store.name, start };
  const text = `${JSON.stringify(config, null, 2)}\n`;
  const missing = !pluginOf(config, "cdcSource") ? "a source" : !pluginOf(config, "cdcTarget") ? "a target" : "";
  const deploy = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await store.save();
      await request("POST", url, { body, key });
      await request("DELETE", store.url).catch(() => {});
      say(start ? `Pipeline ${store.name} is deployed, and starts` : `Pipeline ${store.name} is deployed`);
      go(here("pipelines", store.name));
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  const keep = async () => {
    await store.save().then(
      () => {
        say(`Draft ${store.name} is saved`);
        go(here("drafts"));
      },
      () => {},
    );
  };
  return html`<div class="panel tight"><${Facts} config=${config} /></div>
    <${Estimated} store=${store} config=${config} />
    ${missing && html`<div class="note warn"><${Icon} name="warning" /><div><p>The pipeline has no ${missing.slice(2)} yet.</p></div></div>`}
    ${problem && html`<${ProblemBox} problem=${problem} title="The pipeline was not deployed" />`}
    <div class="panel stack">
      <label class="check"><input type="checkbox" checked=${start} onChange=${(/** @type {any} */ event) => setStart(event.target.checked)} />Start it at once</label>
      <p class="actions">
        <button type="button" class="primary" disabled=${busy || !!missing || !may("admin")} onClick=${deploy}>${busy ? "Deploying…" : "Deploy pipeline"}</button>
        <button type="button" onClick=${keep}>Save draft</button>
        <button type="button" onClick=${() => download(`${store.name}.json`, text)}><${Icon} name="download" />Export</button>
      </p>
      <p class="actions">
        <${CopyButton} label="Copy as CLI" text=${() => `# Instead of Deploy, with the exported file; beside it two replicators would write one target.\n${cli("run", `${store.name}.json`)}`} />
        <${CopyButton} label="Copy as curl" text=${() => curl("POST", url, body)} />
      </p>
      ${!may("admin") && html`<p class="muted">Deploying needs the role admin. Save the draft: an admin can deploy it from here.</p>`}
    </div>`;
}

/**
 * How much the first copy is, where the source can be asked.
 * @param {{store: import("./draft_store.js").DraftStore, config: any}} props
 */
function Estimated({ store, config }) {
  const { data } = useSourceTables(store, config);
  const selection = useMemo(() => new TableSelection(Array.isArray(config.tables) ? config.tables : []), [config.tables]);
  return data && data.length > 0 ? html`<${FirstCopy} tables=${data.filter((one) => selection.selects(one))} />` : null;
}

/** @param {{config: any}} props */
function Facts({ config }) {
  const tables = config.tables ?? [];
  const selecting = tables.filter((/** @type {any} */ one) => !one.exclude);
  const rows = [
    ["Name", config.name],
    ["Description", config.description || "–"],
    ["Source", plugin(pluginOf(config, "cdcSource"))],
    ["Tables", selecting.length ? `${selecting.slice(0, 6).map(tableName).join(", ")}${selecting.length > 6 ? ` and ${counted(selecting.length - 6, "other")}` : ""}` : `all${tables.length ? ` but ${counted(tables.length, "exclusion")}` : ""}`],
    ["Target", plugin(pluginOf(config, "cdcTarget"))],
    ["Tasks", String(config.parallelism?.tables ?? config.parallelism?.numInstances ?? 4)],
  ];
  return html`<table class="plain facts"><tbody>${rows.map(([label, value]) => html`<tr key=${label}><th scope="row">${label}</th><td>${value}</td></tr>`)}</tbody></table>`;
}

/** @param {import("./config_edits.js").PluginReference | null} found */
function plugin(found) {
  if (!found) return "–";
  const shown = Object.entries(found.properties).filter(([, value]) => ["string", "number"].includes(typeof value) && !reference(value)).slice(0, 3);
  return `${found.name}${shown.length ? ` (${shown.map(([key, value]) => `${key} ${value}`).join(", ")})` : ""}`;
}
