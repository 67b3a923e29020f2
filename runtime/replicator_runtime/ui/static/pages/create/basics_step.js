// @ts-check
import { html, useEffect, useId, useRef, useState } from "../../core/html.js";
import { context, request } from "../../core/api.js";
import { here } from "../../core/router.js";
import { Icon } from "../../components/icons.js";
import { ImportDialog } from "../drafts/import_dialog.js";
import { NAME, NAME_RULE } from "./config_edits.js";

/**
 * Step 1: name and description; or a config from elsewhere.
 * @param {{store: import("./draft_store.js").DraftStore, config: any, edit: (config: any) => void, control: import("./wizard.js").StepControl}} props
 */
export function BasicsStep({ store, config, edit, control }) {
  const [taken, setTaken] = useState("");
  const [importing, setImporting] = useState(false);
  const first = useRef(/** @type {HTMLInputElement | null} */ (null));
  const id = useId();
  const name = store.name || config.name || "";
  const wrong = store.name ? "" : !name ? "Give the pipeline a name." : !NAME.test(name) ? NAME_RULE : taken === name ? `A draft named ${name} exists already: open it, or choose another name.` : "";
  useEffect(() => control.block(wrong), [wrong]);
  useEffect(() => {
    if (!store.name) first.current?.focus();
  }, []);
  useEffect(() => {
    if (store.name || !NAME.test(name)) return undefined;
    const timer = setTimeout(() => request("GET", context(store.namespace, "drafts", name)).then(() => setTaken(name), () => {}), 300);
    return () => clearTimeout(timer);
  }, [name]);
  const shown = wrong && (control.tried || name) ? wrong : "";
  return html`<div class="panel stack">
    <div class="field narrow">
      <label for=${`${id}-name`}>Name <span class="required">(required)</span></label>
      <input id=${`${id}-name`} ref=${first} value=${name} readOnly=${!!store.name} maxlength="63" autocomplete="off" spellcheck=${false} aria-invalid=${shown ? "true" : undefined} aria-describedby=${`${id}-about`}
        onInput=${(/** @type {any} */ event) => edit({ ...config, name: event.target.value.trimStart() })}
        onChange=${(/** @type {any} */ event) => edit({ ...config, name: event.target.value.trim() })} />
      <p class="about" id=${`${id}-about`}>${store.name ? "A pipeline keeps its name: its state is stored below it. To use another one, duplicate the draft." : "Names the pipeline, its state and its commands."}</p>
      ${shown && html`<p class="wrong" role="alert"><${Icon} name="error" /><span>${shown}</span></p>`}
      ${taken === name && name && !store.name && html`<p><a href=${here("create", name, "basics")}>Open the draft ${name}</a></p>`}
    </div>
    <div class="field narrow">
      <label for=${`${id}-text`}>Description</label>
      <textarea id=${`${id}-text`} value=${config.description ?? ""} onInput=${(/** @type {any} */ event) => edit({ ...config, description: event.target.value })}></textarea>
    </div>
    <p class="actions"><button type="button" class="small" onClick=${() => setImporting(true)}><${Icon} name="upload" />Import JSON</button><small>A pipeline JSON, a CDAP replication job or an export of this page.</small></p>
    ${importing && html`<${ImportDialog} namespace=${store.namespace} into=${true} onClose=${() => setImporting(false)} onImport=${async (/** @type {string} */ _, /** @type {any} */ found) => {
      edit({ ...found, name: store.name || found.name || name });
      setImporting(false);
    }} />`}
  </div>`;
}
