// @ts-check
import { html, useId, useState } from "../../core/html.js";
import { all, context, request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { CopyAs } from "../../components/copy_button.js";
import { Dialog } from "../../components/dialog.js";
import { say, sayProblem } from "../../components/toast.js";
import { NAME, NAME_RULE } from "./config_edits.js";

/**
 * Takes the settings of a saved connection, or saves the present ones as one.
 * @param {{namespace: string, plugin: {name: string, type: string, properties: Record<string, any>}, onUse: (properties: Record<string, any>) => void}} props
 */
export function SavedConnections({ namespace, plugin, onUse }) {
  const list = useResource((signal) => all(context(namespace, "connections"), { signal }), [namespace]);
  const [saving, setSaving] = useState(false);
  const id = useId();
  const fitting = (list.data ?? []).filter((one) => one.plugin?.name === plugin.name && one.plugin?.type === plugin.type);
  const use = (/** @type {any} */ event) => {
    const found = fitting.find((one) => one.name === event.target.value);
    if (found) onUse(found.plugin.properties ?? {});
  };
  return html`<div class="row saved-connections">
    ${fitting.length > 0 && html`<label for=${id} class="label">Saved connection</label>
      <select id=${id} onChange=${use} value=${fitting.find((one) => JSON.stringify(one.plugin.properties) === JSON.stringify(plugin.properties))?.name ?? ""}>
        <option value="">Settings below</option>
        ${fitting.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}
      </select>`}
    <button type="button" class="quiet small" onClick=${() => setSaving(true)}>Save as connection</button>
    ${saving && html`<${SaveDialog} namespace=${namespace} plugin=${plugin} onClose=${() => setSaving(false)} onSaved=${list.reload} />`}
  </div>`;
}

/** @param {{namespace: string, plugin: any, onClose: () => void, onSaved: () => void}} props */
function SaveDialog({ namespace, plugin, onClose, onSaved }) {
  const [name, setName] = useState("");
  const id = useId();
  const save = async () => {
    try {
      await request("PUT", context(namespace, "connections", name), { body: { plugin }, create: true });
      say(`Connection ${name} is saved`);
      onSaved();
      onClose();
    } catch (error) {
      sayProblem(error);
    }
  };
  const bad = name && !NAME.test(name);
  const actions = html`<button type="button" onClick=${onClose}>Cancel</button><button type="button" class="primary" disabled=${!name || bad} onClick=${save}>Save</button>`;
  return html`<${Dialog} title="Save as connection" onClose=${onClose} actions=${actions}>
    <p>Other pipelines of this namespace can use these settings. Secrets stay references.</p>
    <div class="field"><label for=${id}>Name</label><input id=${id} value=${name} autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setName(event.target.value.trim())} />
      ${bad && html`<p class="wrong">${NAME_RULE}</p>`}</div>
    ${name && !bad && html`<${CopyAs} method="PUT" url=${context(namespace, "connections", name)} body=${{ plugin }} headers=${{ "If-None-Match": "*" }} />`}
  </${Dialog}>`;
}
