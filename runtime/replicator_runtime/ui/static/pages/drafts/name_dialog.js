// @ts-check
import { html, useId, useState } from "../../core/html.js";
import { asProblem } from "../../core/resource.js";
import { Dialog } from "../../components/dialog.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { NAME, NAME_RULE } from "../create/config_edits.js";

/**
 * Asks for a name.
 * @param {{title: string, suggested: string, withLabel?: boolean, label?: string, copies?: (name: string, label: string) => any, onClose: () => void, onName: (name: string, label: string) => Promise<void>}} props
 */
export function NameDialog({ title, suggested, withLabel, label = "", copies, onClose, onName }) {
  const [name, setName] = useState(suggested);
  const [text, setText] = useState(label);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const id = useId();
  const bad = !NAME.test(name);
  const act = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!bad) onName(name, text).catch((error) => setProblem(asProblem(error)));
  };
  const actions = html`<button type="button" onClick=${onClose}>Cancel</button><button type="submit" form=${`${id}-form`} class="primary" disabled=${bad}>OK</button>`;
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${actions}>
    <form id=${`${id}-form`} class="stack" onSubmit=${act}>
      <div class="field"><label for=${`${id}-name`}>Name</label><input id=${`${id}-name`} value=${name} autocomplete="off" spellcheck=${false} aria-invalid=${bad ? "true" : undefined} onInput=${(/** @type {any} */ event) => setName(event.target.value.trim())} />
        ${bad && name && html`<p class="wrong"><${Icon} name="error" />${NAME_RULE}</p>`}</div>
      ${withLabel && html`<div class="field"><label for=${`${id}-label`}>Label</label><input id=${`${id}-label`} value=${text} maxlength="255" autocomplete="off" onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></div>`}
      ${!bad && copies?.(name, text)}
      ${problem && html`<${ProblemBox} problem=${problem} />`}
    </form>
  </${Dialog}>`;
}
