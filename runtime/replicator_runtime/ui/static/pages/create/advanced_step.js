// @ts-check
import { html, useEffect, useId } from "../../core/html.js";
import { SchemaForm } from "../../components/form/schema_form.js";
import { Icon } from "../../components/icons.js";
import { GROUPS, RATES } from "./advanced_schema.js";
import { humanized } from "../../components/form/schema.js";
import { valueAt, withValue } from "./config_edits.js";

const CHANGES = ["INSERT", "UPDATE", "DELETE"];

/**
 * Step 5: how much is done at once, and what follows from errors and changes of structure. Every setting has a default.
 * @param {{config: any, edit: (config: any) => void, control: import("./wizard.js").StepControl, validation: import("./validation.js").Validation}} props
 */
export function AdvancedStep({ config, edit, control, validation }) {
  useEffect(() => control.block(""), []);
  return html`<div class="panel stack"><h3>Throughput</h3><${Throughput} config=${config} edit=${edit} /></div>
    <div class="panel stack"><h3>Changes of rows</h3><${Blacklist} config=${config} edit=${edit} /></div>
    ${GROUPS.map((group) => html`<section key=${group.title} class="panel stack" aria-label=${group.title}><h3>${group.title}</h3><${Group} group=${group} config=${config} edit=${edit} errors=${validation.errors} /></section>`)}`;
}

/** @param {{config: any, edit: (config: any) => void}} props */
function Throughput({ config, edit }) {
  const id = useId();
  const tables = valueAt(config, "parallelism.tables") ?? valueAt(config, "parallelism.numInstances") ?? 4;
  const at = RATES.findIndex((one) => one.tables === tables);
  const set = (/** @type {number | undefined} */ value) => edit(withValue(withValue(config, "parallelism.numInstances", undefined), "parallelism.tables", value));
  const type = (/** @type {any} */ event) => {
    const value = Number(event.target.value);
    if (Number.isInteger(value) && value >= 1) set(value);
  };
  return html`<div class="form-grid">
    <div class="field"><label for=${`${id}-rate`}>How much data are you replicating in an hour?</label>
      <select id=${`${id}-rate`} value=${at < 0 ? "" : String(at)} onChange=${(/** @type {any} */ event) => event.target.value !== "" && set(RATES[Number(event.target.value)].tables)}>
        ${at < 0 && html`<option value="">Another number of tasks</option>`}
        ${RATES.map((rate, index) => html`<option key=${index} value=${String(index)}>${rate.label}</option>`)}
      </select><p class="about">It chooses the number of tasks.</p></div>
    <div class="field"><label for=${`${id}-tasks`}>Number of tasks</label><input id=${`${id}-tasks`} type="number" min="1" step="1" value=${tables} onInput=${type} />
      <p class="about">Tables that are copied or applied at once. It can be changed later.</p></div>
  </div>`;
}

/** @param {{config: any, edit: (config: any) => void}} props */
function Blacklist({ config, edit }) {
  const off = new Set(config.dmlBlacklist ?? []);
  const turn = (/** @type {string} */ key, /** @type {boolean} */ on) => {
    const next = CHANGES.filter((one) => (one === key ? !on : off.has(one)));
    edit(withValue(config, "dmlBlacklist", next.length ? next : undefined));
  };
  return html`<fieldset class="row"><legend class="plain-legend">Replicated in every table; each table can leave out more.</legend>
    ${CHANGES.map((key) => html`<label key=${key} class="check"><input type="checkbox" checked=${!off.has(key)} onChange=${(/** @type {any} */ event) => turn(key, event.target.checked)} />${humanized(key.toLowerCase())}s</label>`)}
    ${off.has("DELETE") && html`<p class="wrong-line"><${Icon} name="warning" />Rows that the source deletes stay at the target.</p>`}
  </fieldset>`;
}

/** @param {{group: any, config: any, edit: (config: any) => void, errors: Record<string, string>}} props */
function Group({ group, config, edit, errors }) {
  const paths = Object.keys(group.settings);
  const values = Object.fromEntries(paths.map((path) => [path, valueAt(config, path)]).filter(([, value]) => value !== undefined));
  const found = Object.fromEntries(paths.map((path) => [path, errors[`/${path.replaceAll(".", "/")}`]]).filter(([, message]) => message));
  const change = (/** @type {Record<string, any>} */ next) => edit(paths.reduce((before, path) => (valueAt(before, path) === next[path] ? before : withValue(before, path, next[path])), config));
  const schema = { type: "object", properties: Object.fromEntries(paths.map((path) => [path, { title: path, ...group.settings[path] }])) };
  return html`<${SchemaForm} schema=${schema} values=${values} onChange=${change} errors=${found} whole=${true} />`;
}
