// @ts-check
import { html, useEffect, useId, useState } from "../../core/html.js";
import { context, request } from "../../core/api.js";
import { asProblem, useResource } from "../../core/resource.js";
import { go, here } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { CopyAs } from "../../components/copy_button.js";
import { say } from "../../components/toast.js";
import { SchemaForm } from "../../components/form/schema_form.js";
import { NAME, NAME_RULE } from "../create/config_edits.js";
import { ConnectionTest } from "../create/connection_test.js";
import { PluginCards } from "../create/plugin_cards.js";
import { plugin, plugins } from "../plugins/plugin_list.js";

/** @typedef {{name: string, type: string, properties: Record<string, any>}} Reference */

/**
 * One connection; a new one without a name.
 * @param {{namespace: string, name: string}} props
 */
export function ConnectionEditor({ namespace, name }) {
  const found = useResource(async (signal) => (name ? await request("GET", context(namespace, "connections", name), { signal }) : null), [namespace, name]);
  const [chosen, setChosen] = useState(/** @type {Reference | null} */ (null));
  const [newName, setNewName] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const id = useId();
  useEffect(() => {
    if (found.data) setChosen({ properties: {}, ...found.data.data.plugin });
  }, [found.data]);
  const title = name || "New connection";
  const head = html`<p><a class="button quiet small" href=${here("connections")}><${Icon} name="left" />Connections</a></p><div class="page-head"><h1>${title}</h1></div>`;
  if (found.problem) return html`${head}<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (name && !chosen) return html`${head}<${Loading} />`;
  const url = context(namespace, "connections", name || newName);
  const save = async () => {
    setProblem(null);
    try {
      await request("PUT", url, { body: { plugin: chosen }, ...(name ? { etag: found.data?.etag } : { create: true }) });
      say(`Connection ${name || newName} is saved`);
      go(here("connections"));
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const bad = !name && newName !== "" && !NAME.test(newName);
  return html`${head}
    ${!name && html`<div class="panel stack"><div class="field narrow"><label for=${id}>Name <span class="required">(required)</span></label>
      <input id=${id} value=${newName} autocomplete="off" spellcheck=${false} aria-invalid=${bad ? "true" : undefined} onInput=${(/** @type {any} */ event) => setNewName(event.target.value.trim())} />${bad && html`<p class="wrong"><${Icon} name="error" />${NAME_RULE}</p>`}</div>
      <${Choice} chosen=${chosen} onChoose=${setChosen} /></div>`}
    ${chosen && html`<${Settings} key=${chosen.name} chosen=${chosen} onChange=${setChosen} />
      <${ConnectionTest} namespace=${namespace} plugin=${chosen} ready=${true} />
      ${problem && html`<${ProblemBox} problem=${problem} />`}
      <p class="actions"><button type="button" class="primary" disabled=${!may("operator") || (!name && (!newName || bad))} onClick=${save}>Save connection</button>
        <a class="button" href=${here("connections")}>Cancel</a><${CopyAs} method="PUT" url=${url} body=${{ plugin: chosen }} /></p>`}`;
}

/** @param {{chosen: Reference | null, onChoose: (chosen: Reference) => void}} props */
function Choice({ chosen, onChoose }) {
  const list = useResource(plugins, []);
  if (list.problem) return html`<${ProblemBox} problem=${list.problem} retry=${list.reload} />`;
  if (!list.data) return html`<${Loading} />`;
  const cards = (/** @type {string} */ type, /** @type {string} */ label) => html`<h2>${label}</h2><${PluginCards} items=${list.data?.filter((one) => one.type === type) ?? []} chosen=${chosen?.type === type ? chosen.name : undefined} label=${label} onChoose=${(/** @type {string} */ name) => onChoose({ name, type, properties: {} })} />`;
  return html`${cards("cdcSource", "Sources")}${cards("cdcTarget", "Targets")}`;
}

/** @param {{chosen: Reference, onChange: (chosen: Reference) => void}} props */
function Settings({ chosen, onChange }) {
  const detail = useResource(() => plugin(chosen.type, chosen.name), [chosen.type, chosen.name]);
  if (detail.problem) return html`<${ProblemBox} problem=${detail.problem} retry=${detail.reload} />`;
  if (!detail.data) return html`<${Loading} what="Reading its settings" />`;
  return html`<section class="panel stack" aria-label="Settings"><h2>${detail.data.title}</h2><${SchemaForm} schema=${detail.data.schema} values=${chosen.properties} onChange=${(/** @type {any} */ properties) => onChange({ ...chosen, properties })} /></section>`;
}
