// @ts-check
import { html, useEffect, useId, useRef, useState } from "../../core/html.js";
import { context, request } from "../../core/api.js";
import { bytes, counted } from "../../core/format.js";
import { asProblem } from "../../core/resource.js";
import { CopyAs } from "../../components/copy_button.js";
import { Dialog } from "../../components/dialog.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox, sentence, withCode } from "../../components/problem.js";
import { NAME, NAME_RULE } from "../create/config_edits.js";
import { ImportError, imported } from "./imported.js";

/** @typedef {{pointer: string, message: string, hint: string, code?: string}} Found */

/** What the service stores of a config. */
const LARGEST = 4 * 1024 * 1024;

/**
 * Takes a config from a text or a file into a new draft, or into the one that is open. What is wrong is shown with its field; an
 * incomplete config may become a draft. It is no form: the wizard is one already.
 * @param {{namespace: string, into?: boolean, onClose: () => void, onImport: (name: string, config: any, label: string) => Promise<void>}} props
 */
export function ImportDialog({ namespace, into = false, onClose, onImport }) {
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [label, setLabel] = useState("");
  const [state, setState] = useState(/** @type {{found: Found[], problem: any, busy: boolean, fatal: boolean}} */ ({ found: [], problem: null, busy: false, fatal: false }));
  const [tried, setTried] = useState(false);
  const named = useRef(false);
  const id = useId();
  const edit = (/** @type {string} */ next) => {
    setText(next);
    setState({ found: [], problem: null, busy: false, fatal: false });
    if (!named.current) setName(suggestedName(next));
  };
  const read = async (/** @type {any} */ event) => {
    const file = event.target.files?.[0];
    if (!file) return;
    if (file.size > LARGEST) return refuse([{ pointer: "", message: `the file has ${bytes(file.size)}, and a config ${bytes(LARGEST)} at most`, hint: "name tables by patterns, or take another file" }]);
    edit(await file.text());
  };
  const refuse = (/** @type {Found[]} */ found) => setState({ found, problem: null, busy: false, fatal: true });
  const bad = !into && !NAME.test(name);
  const act = async () => {
    if (!text.trim() || state.busy || state.fatal) return;
    let config;
    try {
      config = imported(text);
    } catch (error) {
      const { pointer, message, hint } = error instanceof ImportError ? error : new ImportError("", String(error), "");
      return refuse([{ pointer, message, hint }]);
    }
    if (bad) return setTried(true);
    setState((before) => ({ ...before, busy: true, problem: null }));
    try {
      const known = state.found.length > 0;
      const found = known ? [] : (await request("POST", context(namespace, "validate"), { body: into ? config : { ...config, name } })).data.errors;
      if (found.length > 0) return setState({ found, problem: null, busy: false, fatal: false });
      await onImport(name, config, label);
    } catch (error) {
      setState((before) => ({ ...before, problem: asProblem(error), busy: false }));
    }
  };
  const enter = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter") void act();
  };
  const again = state.found.length > 0 && !state.fatal;
  const actions = html`<button type="button" onClick=${onClose}>Cancel</button>
    <button type="button" class="primary" disabled=${!text.trim() || state.busy || state.fatal} onClick=${act}>${state.busy ? "Checking…" : again ? "Import as it is" : "Import"}</button>`;
  return html`<${Dialog} title="Import a pipeline" onClose=${onClose} wide=${true} actions=${actions}>
    <div class="stack">
      <div class="field"><label for=${`${id}-file`}>File</label><input id=${`${id}-file`} type="file" accept=".json,application/json" onChange=${read} /></div>
      <div class="field"><label for=${`${id}-text`}>JSON</label>
        <textarea id=${`${id}-text`} class="mono" rows="12" value=${text} spellcheck=${false} placeholder="Paste a pipeline, a draft, or an export" aria-invalid=${state.found.length ? "true" : undefined} onInput=${(/** @type {any} */ event) => edit(event.target.value)}></textarea></div>
      <${Problems} found=${state.found} incomplete=${again} />
      ${state.problem && html`<${ProblemBox} problem=${state.problem} title="It was not imported" />`}
      ${!into && html`<div class="field"><label for=${`${id}-name`}>Name</label><input id=${`${id}-name`} value=${name} autocomplete="off" spellcheck=${false} aria-invalid=${(name || tried) && bad ? "true" : undefined} onKeyDown=${enter} onInput=${(/** @type {any} */ event) => {
          named.current = true;
          setName(event.target.value.trim());
        }} />
          ${bad && (name || tried) && html`<p class="wrong" role="alert"><${Icon} name="error" />${NAME_RULE}</p>`}</div>
        <div class="field"><label for=${`${id}-label`}>Label</label><input id=${`${id}-label`} value=${label} maxlength="255" autocomplete="off" onKeyDown=${enter} onInput=${(/** @type {any} */ event) => setLabel(event.target.value)} /></div>
        ${!bad && !state.fatal && !state.problem && text.trim() && html`<${Copies} namespace=${namespace} name=${name} text=${text} label=${label} />`}`}
    </div>
  </${Dialog}>`;
}

/** @param {{found: Found[], incomplete: boolean}} props */
function Problems({ found, incomplete }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), [found]);
  if (found.length === 0) return null;
  return html`<div class="note bad" role="alert" ref=${place}><${Icon} name="error" /><div>
    <p><strong>${incomplete ? `${counted(found.length, "field")} of this pipeline ${found.length === 1 ? "is" : "are"} wrong or missing.` : "This cannot be imported."}</strong></p>
    <ul>${found.map((one) => html`<li key=${`${one.pointer} ${one.message}`}>${one.pointer && html`<code>${one.pointer}</code> `}${sentence(one.message)}${one.code && html` <code>${one.code}</code>`}<br />Next: ${withCode(one.hint || "correct this field in the JSON above")}</li>`)}</ul>
    ${incomplete && html`<p>Correct the JSON above, or import it as it is: a draft may be incomplete, and the steps show the same.</p>`}
  </div></div>`;
}

/** @param {{namespace: string, name: string, text: string, label: string}} props */
function Copies({ namespace, name, text, label }) {
  let config;
  try {
    config = imported(text);
  } catch {
    return null;
  }
  return html`<${CopyAs} words=${["validate", `${name}.json`]} method="PUT" url=${context(namespace, "drafts", name)} body=${{ config: { ...config, name }, label }} headers=${{ "If-None-Match": "*" }} />`;
}

/** @param {string} text */
function suggestedName(text) {
  try {
    const { name } = imported(text);
    return typeof name === "string" ? name : "";
  } catch {
    return "";
  }
}
