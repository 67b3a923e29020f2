// @ts-check
import { html, useState } from "../../core/html.js";

const KINDS = [
  { key: "secure", label: "Secret", about: "my-database-password" },
  { key: "env", label: "Environment", about: "REPLICATOR_VAR_NAME" },
  { key: "file", label: "File", about: "/run/secrets/database" },
];
const REFERENCE = /^\s*\$\{\s*(secure|env|file)\s*\(\s*([^(){}]*?)\s*\)\s*\}\s*$/;

/**
 * The kind and the name of a reference to a secret; null for anything else.
 * @param {unknown} value
 * @returns {{kind: string, name: string} | null}
 */
export function reference(value) {
  const found = typeof value === "string" ? REFERENCE.exec(value) : null;
  return found ? { kind: found[1], name: found[2] } : null;
}

/**
 * Names where a secret is stored. The page never takes the secret itself: what is pasted stays a name.
 * @param {{id: string, value: any, onChange: (value: any) => void, described?: string, invalid?: string, setting?: any, label?: string}} props
 */
export function SecretField({ id, value, onChange, described, invalid, setting, label }) {
  const found = reference(value);
  const [kind, setKind] = useState(found?.kind ?? "secure");
  const shownKind = found?.kind ?? kind;
  const write = (/** @type {string} */ ofKind, /** @type {string} */ name) => onChange(name === "" ? undefined : `\${${ofKind}(${name.replace(/[(){}]/g, "")})}`);
  const type = (/** @type {any} */ event) => {
    const whole = reference(event.target.value);
    if (whole) setKind(whole.kind);
    write(whole?.kind ?? shownKind, whole?.name ?? event.target.value.trim());
  };
  const choose = (/** @type {any} */ event) => {
    setKind(event.target.value);
    if (found) write(event.target.value, found.name);
  };
  return html`<span class="secret">
    <select aria-label=${`${label ?? setting?.label ?? "Secret"}: where it is stored`} value=${shownKind} onChange=${choose}>
      ${KINDS.map((one) => html`<option key=${one.key} value=${one.key}>${one.label}</option>`)}
    </select>
    <input id=${id} class="mono" value=${found?.name ?? ""} placeholder=${KINDS.find((one) => one.key === shownKind)?.about} aria-describedby=${described} aria-invalid=${invalid} aria-label=${label} autocomplete="off" spellcheck=${false} onInput=${type} />
  </span>`;
}
