// @ts-check
import { html, useId } from "../../core/html.js";
import { withCode } from "../problem.js";
import { Icon } from "../icons.js";
import { SecretField } from "./secret_field.js";
import { ListField, MapField } from "./many_fields.js";
import { JsonField } from "./json_field.js";
import { humanized } from "./schema.js";

/**
 * One setting: its label, its field, what it is for, what is wrong.
 * @param {{setting: import("./schema.js").Setting, value: any, wrong: string, onChange: (value: any) => void, definitions: Record<string, import("./schema.js").Schema>}} props
 */
export function Field({ setting, value, wrong, onChange, definitions }) {
  const id = useId();
  const about = `${id}-about`;
  const described = wrong ? `${id}-wrong ${about}` : about;
  const common = { id, value, onChange, setting, described, invalid: wrong ? "true" : undefined };
  if (setting.kind === "boolean") {
    const checked = value === undefined ? setting.schema.default === true : value === true;
    return html`<div class="field">
      <label class="check" for=${id}><input id=${id} type="checkbox" checked=${checked} aria-describedby=${described} onChange=${(/** @type {any} */ event) => onChange(changed(event.target.checked, setting.schema.default === true))} />${setting.label}</label>
      <${About} id=${about} text=${setting.about} /><${Wrong} id=${`${id}-wrong`} text=${wrong} />
    </div>`;
  }
  const wide = ["map", "json", "object", "path"].includes(setting.kind);
  return html`<div class=${wide ? "field whole" : "field"}>
    <label for=${id} title=${setting.key}>${setting.label}${setting.required && html` <span class="required">(required)</span>`}</label>
    ${input(common, definitions)}
    <${About} id=${about} text=${setting.about} /><${Wrong} id=${`${id}-wrong`} text=${wrong} />
  </div>`;
}

/** @param {boolean} chosen @param {boolean} usual */
function changed(chosen, usual) {
  return chosen === usual ? undefined : chosen;
}

/**
 * @param {any} common
 * @param {Record<string, import("./schema.js").Schema>} definitions
 */
function input(common, definitions) {
  const { setting } = common;
  switch (setting.kind) {
    case "secret":
      return html`<${SecretField} ...${common} />`;
    case "choice":
      return html`<${ChoiceField} ...${common} />`;
    case "list":
      return html`<${ListField} ...${common} />`;
    case "map":
      return html`<${MapField} ...${common} secret=${isSecret(setting.schema.additionalProperties)} />`;
    case "json":
    case "object":
      return html`<${JsonField} ...${common} />`;
    default:
      return html`<${TextField} ...${common} />`;
  }
}

/** @param {any} schema */
function isSecret(schema) {
  return typeof schema === "object" && (schema.writeOnly === true || schema.format === "password");
}

/** @param {any} props */
function TextField({ id, value, onChange, setting, described, invalid }) {
  const numeric = setting.kind === "integer" || setting.kind === "number";
  const usual = setting.schema.default;
  const change = (/** @type {any} */ event) => {
    const text = event.target.value;
    onChange(numeric && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text === "" ? undefined : text);
  };
  return html`<input id=${id} class=${setting.kind === "path" ? "mono" : undefined} type="text" inputmode=${numeric ? "decimal" : undefined} value=${value ?? ""} placeholder=${usual === null || usual === undefined || usual === "" ? undefined : String(usual)}
    required=${setting.required} aria-describedby=${described} aria-invalid=${invalid} autocomplete="off" spellcheck=${false} autocapitalize="off" onInput=${change} />`;
}

/** @param {any} props */
function ChoiceField({ id, value, onChange, setting, described, invalid }) {
  const usual = setting.schema.default;
  const choose = (/** @type {any} */ event) => onChange(event.target.value === "" ? undefined : setting.choices[Number(event.target.value)]);
  const at = setting.choices.indexOf(value);
  const text = (/** @type {any} */ choice) => setting.schema.labels?.[choice] ?? String(choice);
  return html`<select id=${id} value=${at < 0 ? "" : String(at)} required=${setting.required} aria-describedby=${described} aria-invalid=${invalid} onChange=${choose}>
    ${(!setting.required || at < 0) && html`<option value="">${usual === undefined || usual === null ? (setting.required ? "Choose one" : "Not set") : `${text(usual)} (default)`}</option>`}
    ${setting.choices.map((/** @type {any} */ choice, /** @type {number} */ index) => (choice === usual && index !== at ? null : html`<option key=${index} value=${String(index)}>${text(choice)}</option>`))}
  </select>`;
}

/** @param {{id: string, text: string}} props */
function About({ id, text }) {
  return html`<p class="about" id=${id}>${withCode(text)}</p>`;
}

/** @param {{id: string, text: string}} props */
function Wrong({ id, text }) {
  return text ? html`<p class="wrong" id=${id}><${Icon} name="error" /><span>${text}</span></p>` : null;
}

export { humanized };
