// @ts-check
/** Asks before an action: its effect, what else it needs, the same as a command and as a request. */
import { html, signal, useId, useState } from "../core/html.js";
import { context, newKey, request } from "../core/api.js";
import { session } from "../core/session.js";
import { ConfirmDialog } from "../components/dialog.js";
import { CopyAs } from "../components/copy_button.js";
import { effectOf, readable, whyNot, wordsOf } from "./actions.js";
import { follow } from "./followed.js";

/** @typedef {import("./actions.js").Action} Action */
/** @typedef {{ namespace: string, name: string }} Target */
/** @typedef {{ target: Target, action: Action, tables: string[] }} Asked `tables` as commands take them. */

/** @type {import("@preact/signals").Signal<Asked | null>} */
const asked = signal(null);

/**
 * Do it: at once where nothing is asked, else after a dialog.
 * @param {Target} target
 * @param {Action} action
 * @param {string[]} [tables]
 */
export function act(target, action, tables = []) {
  if (action.asks === "nothing" && !action.choices) void send(target, action, tables, {});
  else asked.value = { target, action, tables };
}

/**
 * Items of a menu.
 * @param {Target} target
 * @param {readonly Action[]} actions
 * @param {string[]} [tables]
 * @returns {import("../parts/menu.js").MenuItem[]}
 */
export const menuItems = (target, actions, tables = []) =>
  actions.map((action) => ({
    label: action.asks === "nothing" ? action.label : `${action.label}…`,
    danger: action.danger,
    refused: whyNot(action, session.value?.role),
    run: () => act(target, action, tables),
  }));

/**
 * The request's address and body.
 * @param {Target} target
 * @param {Action} action
 * @param {string[]} tables
 * @param {Record<string, unknown>} choices
 */
export function requestOf(target, action, tables, choices) {
  const url = context(target.namespace, "pipelines", target.name, ...action.path.split("/").filter(Boolean));
  const chosen = Object.fromEntries(Object.entries(choices).filter(([, value]) => value !== "" && value !== false));
  const named = action.tables === "one" ? { table: tables[0] } : action.tables ? { tables } : {};
  const method = action.method ?? "POST";
  const body = { ...named, ...chosen, ...action.body?.(choices) };
  if (method === "DELETE") {
    const query = new URLSearchParams(Object.entries(chosen).map(([name, value]) => [name, String(value)])).toString();
    return { method, url: query ? `${url}?${query}` : url, body: undefined };
  }
  return { method, url, body: !action.body && Object.keys(body).length === 0 ? undefined : body };
}

/**
 * @param {Target} target
 * @param {Action} action
 * @param {string[]} tables
 * @param {Record<string, unknown>} choices
 */
function send(target, action, tables, choices) {
  const { method, url, body } = requestOf(target, action, tables, choices);
  const what = tables.length === 0 ? target.name : tables.length === 1 ? readable(tables[0] ?? "") : `${tables.length} tables of ${target.name}`;
  return follow(`${action.label}: ${what}`, async () => {
    const { data } = await request(method, url, { body, key: newKey() });
    return answerOf(target, data);
  }, undefined, { words: wordsOf(action, target.name, tables, choices), method, url, body });
}

/**
 * Where the outcome of an accepted request is.
 * @param {Target} target
 * @param {any} data
 */
export function answerOf(target, data) {
  if (data?.requestId) return { url: context(target.namespace, "pipelines", target.name, "requests", data.requestId) };
  if (data?.id && data?.command) return { url: context(target.namespace, "jobs", data.id) };
  return { url: null, text: "accepted; the state follows" };
}

/** The dialog; once in a page. */
export function AskPlace() {
  const found = asked.value;
  return found ? html`<${Ask} key=${found} ...${found} />` : null;
}

/** @param {Asked} props */
function Ask({ target, action, tables }) {
  const [choices, setChoices] = useState(
    /** @type {Record<string, unknown>} */ (Object.fromEntries((action.choices ?? []).map((one) => [one.name, one.value ?? ""]))),
  );
  const close = () => (asked.value = null);
  const missing = (action.choices ?? []).some((one) => one.required && !choices[one.name]);
  const confirm = () => {
    if (missing) return;
    close();
    void send(target, action, tables, choices);
  };
  const { method, url, body } = requestOf(target, action, tables, choices);
  const named = tables.length > 1 ? `${tables.length} tables` : (tables[0] ? readable(tables[0]) : target.name);
  return html`<${ConfirmDialog}
    title=${`${action.label}: ${named}`} effect=${effectOf(action, tables)} action=${action.label} danger=${action.danger ?? false}
    typed=${action.asks === "name" ? target.name : undefined} onConfirm=${confirm} onClose=${close}
  >
    ${tables.length > 1 && html`<${Named} tables=${tables} />`}
    ${(action.choices ?? []).map(
      (choice) => html`<${ChoiceField} key=${choice.name} choice=${choice} value=${choices[choice.name]}
        onChange=${(/** @type {unknown} */ value) => setChoices({ ...choices, [choice.name]: value })} />`,
    )}
    <${CopyAs} words=${wordsOf(action, target.name, tables, choices)} method=${method} url=${url} body=${body} />
  </${ConfirmDialog}>`;
}

/** @param {{ tables: string[] }} props */
const Named = ({ tables }) => html`<details><summary>The ${tables.length} tables</summary>
  <ul class="named">${tables.slice(0, 200).map((table) => html`<li><code>${readable(table)}</code></li>`)}</ul>
  ${tables.length > 200 && html`<p>and ${tables.length - 200} more</p>`}
</details>`;

/** @param {{ choice: import("./actions.js").Choice, value: unknown, onChange: (value: unknown) => void }} props */
function ChoiceField({ choice, value, onChange }) {
  const id = useId();
  const hint = choice.hint && html`<p class="hint" id=${`${id}-hint`}>${choice.hint}</p>`;
  if (choice.kind === "flag") {
    return html`<div class="field check"><label><input type="checkbox" checked=${Boolean(value)} aria-describedby=${`${id}-hint`}
      onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} /> ${choice.label}</label>${hint}</div>`;
  }
  return html`<div class="field"><label for=${id}>${choice.label}</label>
    <input id=${id} value=${value} required=${choice.required} autocomplete="off" spellcheck=${false} aria-describedby=${`${id}-hint`}
      onInput=${(/** @type {any} */ event) => onChange(event.target.value)} />${hint}</div>`;
}
