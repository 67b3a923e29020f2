// @ts-check
import { html, useEffect, useState } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { ProblemBox } from "../../components/problem.js";
import { Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { SchemaForm } from "../../components/form/schema_form.js";
import { settingsOf, wrong } from "../../components/form/schema.js";
import { plugin, plugins } from "../plugins/plugin_list.js";
import { DocumentationDialog } from "../plugins/plugin_docs.js";
import { ConnectionTest } from "./connection_test.js";
import { SavedConnections } from "./saved_connections.js";
import { PluginCards } from "./plugin_cards.js";
import { pluginOf, stageIndex, withPlugin } from "./config_edits.js";
import { below } from "./validation.js";

/**
 * Steps 2 and 4: which plugin, its settings, a test of the connection.
 * @param {{type: "cdcSource" | "cdcTarget", store: import("./draft_store.js").DraftStore, config: any, edit: (config: any) => void,
 *   control: import("./wizard.js").StepControl, validation: import("./validation.js").Validation}} props
 */
export function PluginStep({ type, store, config, edit, control, validation }) {
  const list = useResource(plugins, []);
  const chosen = pluginOf(config, type);
  const noun = type === "cdcSource" ? "source" : "target";
  useEffect(() => {
    if (!chosen) control.block(`Choose a ${noun}.`);
  }, [!chosen]);
  if (list.problem) return html`<${ProblemBox} problem=${list.problem} retry=${list.reload} title="The plugins cannot be listed" />`;
  if (!list.data) return html`<${Loading} what="Reading which plugins are installed" />`;
  const choose = (/** @type {string} */ name) => {
    if (chosen?.name !== name) edit(withPlugin(config, type, { name, properties: {} }));
  };
  return html`<div class="panel stack">
      <${PluginCards} items=${list.data.filter((one) => one.type === type)} chosen=${chosen?.name} label=${type === "cdcSource" ? "Source" : "Target"} onChoose=${choose} />
    </div>
    ${chosen && html`<${Settings} key=${chosen.name} ...${{ type, store, config, edit, control, validation, chosen, noun }} />`}`;
}

/** @param {any} props */
function Settings({ type, store, config, edit, control, validation, chosen, noun }) {
  const detail = useResource(() => plugin(type, chosen.name), [type, chosen.name]);
  const [docs, setDocs] = useState(false);
  const schema = detail.data?.schema;
  const missing = schema ? settingsOf(schema).find((setting) => wrong(setting, chosen.properties[setting.key])) : undefined;
  useEffect(() => control.block(missing ? `${missing.label}: ${wrong(missing, chosen.properties[missing.key])}` : ""), [missing?.key, missing && wrong(missing, chosen.properties[missing.key])]);
  if (detail.problem) return html`<${ProblemBox} problem=${detail.problem} retry=${detail.reload} />`;
  if (!detail.data || !schema) return html`<${Loading} what="Reading its settings" />`;
  const set = (/** @type {any} */ properties) => edit(withPlugin(config, type, { name: chosen.name, properties }));
  const errors = below(validation.errors, `/stages/${stageIndex(config, type)}/plugin/properties`);
  const reference = { name: chosen.name, type, properties: chosen.properties };
  return html`<section class="panel stack" aria-label=${`Settings of the ${noun}`}>
      <div class="row"><h3>${detail.data.title}</h3><span class="gap"></span>
        <${SavedConnections} namespace=${store.namespace} plugin=${reference} onUse=${set} />
        <button type="button" class="quiet small" onClick=${() => setDocs(true)}><${Icon} name="info" />Documentation</button></div>
      <${SchemaForm} schema=${schema} values=${chosen.properties} onChange=${set} errors=${errors} showMissing=${control.tried} />
    </section>
    <${ConnectionTest} namespace=${store.namespace} plugin=${reference} ready=${!missing} />
    ${docs && html`<${DocumentationDialog} plugin=${detail.data} onClose=${() => setDocs(false)} />`}`;
}
