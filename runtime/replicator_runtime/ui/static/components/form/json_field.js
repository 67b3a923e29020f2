// @ts-check
import { html, useEffect, useState } from "../../core/html.js";

/**
 * A value of any shape: a plain text, or JSON.
 * @param {{id: string, value: any, onChange: (value: any) => void, described?: string, invalid?: string, setting: any}} props
 */
export function JsonField({ id, value, onChange, described, invalid, setting }) {
  const [text, setText] = useState(() => shown(value));
  const [bad, setBad] = useState(false);
  useEffect(() => {
    if (shown(value) !== shown(read(text, setting).value)) setText(shown(value));
  }, [value]);
  const type = (/** @type {any} */ event) => {
    const found = read(event.target.value, setting);
    setText(event.target.value);
    setBad(found.bad);
    if (!found.bad) onChange(found.value);
  };
  return html`<textarea id=${id} class="mono" rows="2" value=${text} placeholder="JSON" aria-describedby=${described} aria-invalid=${bad ? "true" : invalid} spellcheck=${false} onInput=${type}></textarea>
    ${bad && html`<p class="wrong">This is no JSON yet.</p>`}`;
}

/** @param {any} value */
function shown(value) {
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

/**
 * @param {string} text
 * @param {any} setting
 * @returns {{value: any, bad: boolean}}
 */
function read(text, setting) {
  if (text.trim() === "") return { value: undefined, bad: false };
  try {
    return { value: JSON.parse(text), bad: false };
  } catch {
    const texts = (setting.schema.anyOf ?? []).some((/** @type {any} */ one) => one.type === "string");
    return texts && !/^\s*[[{]/.test(text) ? { value: text, bad: false } : { value: undefined, bad: true };
  }
}
