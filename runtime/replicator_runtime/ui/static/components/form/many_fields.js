// @ts-check
import { html, useEffect, useState } from "../../core/html.js";
import { Icon } from "../icons.js";
import { SecretField } from "./secret_field.js";

/**
 * A list of texts, one a line.
 * @param {{id: string, value: any, onChange: (value: any) => void, described?: string, invalid?: string, setting: any}} props
 */
export function ListField({ id, value, onChange, described, invalid, setting }) {
  const [text, setText] = useState(() => lines(value));
  useEffect(() => {
    if (JSON.stringify(parsed(text) ?? []) !== JSON.stringify(value ?? [])) setText(lines(value));
  }, [value]);
  const usual = Array.isArray(setting.schema.default) ? setting.schema.default.join("\n") : "";
  const type = (/** @type {any} */ event) => {
    setText(event.target.value);
    onChange(parsed(event.target.value));
  };
  return html`<textarea id=${id} class="mono" rows="3" value=${text} placeholder=${usual || "One a line"} aria-describedby=${described} aria-invalid=${invalid} spellcheck=${false} onInput=${type}></textarea>`;
}

/** @param {any} value */
function lines(value) {
  return Array.isArray(value) ? value.join("\n") : "";
}

/** @param {string} text */
function parsed(text) {
  const found = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return found.length ? found : undefined;
}

/**
 * Names with values. An empty name is kept on the screen, and left out of the value.
 * @param {{id: string, value: any, onChange: (value: any) => void, described?: string, setting: any, secret?: boolean}} props
 */
export function MapField({ id, value, onChange, described, setting, secret }) {
  const [rows, setRows] = useState(() => entries(value));
  useEffect(() => {
    if (JSON.stringify(joined(rows) ?? {}) !== JSON.stringify(value ?? {})) setRows(entries(value));
  }, [value]);
  const write = (/** @type {[string, any][]} */ next) => {
    setRows(next);
    onChange(joined(next));
  };
  const put = (/** @type {number} */ at, /** @type {[string, any]} */ row) => write(rows.map((one, index) => (index === at ? row : one)));
  return html`<div class="map" aria-describedby=${described}>
    ${rows.map(
      ([name, one], at) => html`<div class="map-row" key=${at}>
        <input class="mono" aria-label=${`${setting.label}: name ${at + 1}`} id=${at === 0 ? id : undefined} value=${name} spellcheck=${false} autocomplete="off" onInput=${(/** @type {any} */ event) => put(at, [event.target.value, one])} />
        ${secret && !isPlain(name)
          ? html`<${SecretField} id=${`${id}-${at}`} label=${`${setting.label}: value ${at + 1}`} value=${one} onChange=${(/** @type {any} */ next) => put(at, [name, next])} />`
          : html`<input class="mono" aria-label=${`${setting.label}: value ${at + 1}`} value=${one ?? ""} spellcheck=${false} autocomplete="off" onInput=${(/** @type {any} */ event) => put(at, [name, event.target.value])} />`}
        <button type="button" class="quiet small" aria-label=${`Remove ${name || `row ${at + 1}`}`} onClick=${() => write(rows.filter((_, index) => index !== at))}><${Icon} name="close" /></button>
      </div>`,
    )}
    <button type="button" class="small" id=${rows.length === 0 ? id : undefined} aria-label=${`${setting.label}: add a name`} onClick=${() => setRows([...rows, ["", ""]])}><${Icon} name="plus" />Add</button>
  </div>`;
}

/** Names that hold no secret, although others of the same setting may. @param {string} name */
function isPlain(name) {
  return !/pass|secret|token|key|credential|jaas/i.test(name);
}

/** @param {any} value @returns {[string, any][]} */
function entries(value) {
  return value && typeof value === "object" ? Object.entries(value) : [];
}

/** @param {[string, any][]} rows */
function joined(rows) {
  const named = rows.filter(([name]) => name.trim() !== "");
  return named.length ? Object.fromEntries(named.map(([name, one]) => [name.trim(), one ?? ""])) : undefined;
}
