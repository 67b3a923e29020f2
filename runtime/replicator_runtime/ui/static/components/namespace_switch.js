// @ts-check
import { html, useId, useState } from "../core/html.js";
import { go, path, place } from "../core/router.js";
import { session } from "../core/session.js";

const NAME = "[A-Za-z0-9][A-Za-z0-9_.\\-]{0,62}";

/**
 * Shows the namespace, and goes to another one.
 * @param {{current: string}} props
 */
export function NamespaceSwitch({ current }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const id = useId();
  const only = session.value && session.value.namespace !== "*" ? session.value.namespace : null;
  if (only) return html`<span class="namespace" title="The namespace of your token">${only}</span>`;
  const leave = () => setText(null);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    if (text === null || !form.reportValidity()) return;
    const section = place.value.path.split("/")[3];
    leave();
    go(path("ns", text, ["pipelines", "drafts", "connections", "create"].includes(section) ? section : "pipelines"));
    /** @type {HTMLElement} */ (document.activeElement)?.blur();
  };
  return html`<form class="namespace" onSubmit=${submit}>
    <label for=${id}>Namespace</label>
    <input id=${id} value=${text ?? current} required pattern=${NAME} maxlength="63" size="12" spellcheck=${false} autocomplete="off" title="Type another namespace and press Enter"
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onBlur=${leave} />
  </form>`;
}
