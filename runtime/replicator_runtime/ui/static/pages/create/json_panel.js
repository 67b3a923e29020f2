// @ts-check
import { html, useEffect, useId, useState } from "../../core/html.js";
import { CopyButton } from "../../components/copy_button.js";
import { Icon } from "../../components/icons.js";

const LONG = 400_000;

/**
 * The config as JSON beside the form. What is typed here is in the form at once, and the other way round.
 * @param {{config: import("./draft_store.js").Config, onChange: (config: import("./draft_store.js").Config) => void}} props
 */
export function JsonPanel({ config, onChange }) {
  const written = JSON.stringify(config, null, 2);
  const [text, setText] = useState(written);
  const [bad, setBad] = useState("");
  const id = useId();
  useEffect(() => {
    if (!sameJson(text, written)) {
      setText(written);
      setBad("");
    }
  }, [written]);
  const type = (/** @type {any} */ event) => {
    setText(event.target.value);
    try {
      const found = JSON.parse(event.target.value);
      if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("A pipeline is a JSON object.");
      setBad("");
      onChange(found);
    } catch (error) {
      setBad(error instanceof Error ? error.message : String(error));
    }
  };
  const long = written.length > LONG;
  return html`<section class="json-panel panel tight" aria-label="Pipeline JSON">
    <div class="panel-head"><h2><label for=${id}>Pipeline JSON</label></h2><${CopyButton} text=${written} label="Copy JSON" /></div>
    ${long
      ? html`<p class="json-long">This config is too long to be edited here: it has ${config.tables?.length ?? 0} entries in <code>tables</code>. Export it, or use a pattern.</p>`
      : html`<textarea id=${id} class="mono" value=${text} spellcheck=${false} autocomplete="off" aria-invalid=${bad ? "true" : undefined} onInput=${type}></textarea>`}
    <p class=${bad ? "json-state wrong" : "json-state"} role="status">${bad ? html`<${Icon} name="error" />Not applied: ${bad}` : "Valid JSON. The form shows the same."}</p>
  </section>`;
}

/** @param {string} text @param {string} written */
function sameJson(text, written) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2) === written;
  } catch {
    return false;
  }
}
