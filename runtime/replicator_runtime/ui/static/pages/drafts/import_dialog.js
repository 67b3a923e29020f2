// @ts-check
import { html, useId, useState } from "../../core/html.js";
import { Dialog } from "../../components/dialog.js";
import { Icon } from "../../components/icons.js";
import { imported } from "../create/config_edits.js";

/**
 * Takes a config from a text or a file.
 * @param {{onClose: () => void, onImport: (config: any) => void}} props
 */
export function ImportDialog({ onClose, onImport }) {
  const [text, setText] = useState("");
  const [bad, setBad] = useState("");
  const id = useId();
  const act = () => {
    try {
      onImport(imported(text));
    } catch (error) {
      setBad(error instanceof Error ? error.message : String(error));
    }
  };
  const read = async (/** @type {any} */ event) => {
    const file = event.target.files?.[0];
    if (file) setText(await file.text());
  };
  const actions = html`<button type="button" onClick=${onClose}>Cancel</button><button type="button" class="primary" disabled=${!text.trim()} onClick=${act}>Import</button>`;
  return html`<${Dialog} title="Import a pipeline" onClose=${onClose} wide=${true} actions=${actions}>
    <div class="field"><label for=${`${id}-file`}>File</label><input id=${`${id}-file`} type="file" accept=".json,application/json" onChange=${read} /></div>
    <div class="field"><label for=${`${id}-text`}>JSON</label>
      <textarea id=${`${id}-text`} class="mono" rows="14" value=${text} spellcheck=${false} aria-invalid=${bad ? "true" : undefined} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
      ${bad && html`<p class="wrong" role="alert"><${Icon} name="error" /><span>${bad}</span></p>`}
    </div>
  </${Dialog}>`;
}
