// @ts-check
import { html } from "../../core/html.js";
import { Icon } from "../icons.js";
import { divided, settingsOf, wrong } from "./schema.js";
import { Field } from "./field.js";

/** @typedef {Record<string, any>} Values */

/**
 * A form for the settings that a JSON Schema describes. Settings that are left empty are left out of the values.
 * @param {{schema: import("./schema.js").Schema, values: Values, onChange: (values: Values) => void, errors?: Record<string, string>,
 *   showMissing?: boolean, whole?: boolean}} props `errors` by key, of the service; `whole` shows every setting at once.
 */
export function SchemaForm({ schema, values, onChange, errors = {}, showMissing = false, whole = false }) {
  const settings = settingsOf(schema);
  const [first, others] = whole ? [settings, []] : divided(settings);
  const change = (/** @type {string} */ key, /** @type {any} */ value) => {
    const { [key]: before, ...rest } = values;
    onChange(value === undefined || value === "" ? rest : { ...rest, [key]: value });
  };
  const field = (/** @type {import("./schema.js").Setting} */ setting) => {
    const value = values[setting.key];
    const found = wrong(setting, value);
    const shown = errors[setting.key] ?? (found && (showMissing || value !== undefined) ? found : "");
    return html`<${Field} key=${setting.key} setting=${setting} value=${value} wrong=${shown} onChange=${(/** @type {any} */ next) => change(setting.key, next)} definitions=${schema.$defs ?? {}} />`;
  };
  const set = others.filter((setting) => values[setting.key] !== undefined).length;
  const open = others.some((setting) => errors[setting.key] || (values[setting.key] !== undefined && wrong(setting, values[setting.key])));
  return html`<div class="form">
    <div class="form-grid">${first.map(field)}</div>
    ${others.length > 0 && html`<details class="more" open=${open || undefined}>
      <summary><${Icon} name="right" />More settings <span class="count">${others.length}</span>${set > 0 && html`<span class="muted"> ${set} set</span>`}</summary>
      <div class="form-grid">${others.map(field)}</div>
    </details>`}
  </div>`;
}
