// @ts-check
/** Who may use the service: tokens, of which the text is shown once. */
import { html, useId, useState } from "../../core/html.js";
import { all, request } from "../../core/api.js";
import { asProblem, useResource } from "../../core/resource.js";
import { time } from "../../core/format.js";
import { StatusBadge } from "../../components/badge.js";
import { CopyAs, CopyButton } from "../../components/copy_button.js";
import { ConfirmDialog, Dialog } from "../../components/dialog.js";
import { Empty, Loading } from "../../components/empty.js";
import { ProblemBox } from "../../components/problem.js";
import { say, sayProblem } from "../../components/toast.js";
import { Ago } from "../../live/clock.js";

const URL_OF_TOKENS = "/v1/tokens";
const ROLES = [
  ["viewer", "reads everything in its namespace"],
  ["operator", "starts, stops, pauses, verifies, approves changes of structure"],
  ["admin", "creates and deletes pipelines, resets, rewinds, drops tables"],
];

export function Tokens() {
  const found = useResource((signal) => all(URL_OF_TOKENS, { signal }), []);
  const [revoked, setRevoked] = useState(/** @type {any} */ (null));
  const revoke = async () => {
    try {
      await request("DELETE", `${URL_OF_TOKENS}/${encodeURIComponent(revoked.id)}`);
      say(`the token ${revoked.label || revoked.id} is revoked`);
    } catch (error) {
      sayProblem(error);
    }
    setRevoked(null);
    found.reload();
  };
  return html`<${NewToken} onMade=${found.reload} />
    ${found.problem && html`<${ProblemBox} problem=${found.problem} retry=${found.reload} />`}
    ${!found.data ? !found.problem && html`<${Loading} what="Tokens are loaded" />`
      : found.data.length === 0 ? html`<${Empty} title="No tokens yet"><p>Create one above, or with <code>replicator token create</code>.</p></${Empty}>`
      : html`<div class="scroll-x panel tight" tabindex="0" role="region" aria-label="Tokens"><table class="plain"><thead><tr><th scope="col">Label</th><th scope="col">Role</th><th scope="col">Namespace</th><th scope="col">Created</th><th scope="col">Expires</th><th scope="col">State</th><th scope="col"><span class="off-screen">Action</span></th></tr></thead>
        <tbody>${found.data.map((/** @type {any} */ one) => html`<tr key=${one.id}><td>${one.label || html`<code>${one.id}</code>`}</td><td class="nowrap">${one.role}</td><td>${one.namespace === "*" ? "all" : one.namespace}</td><td><${Ago} at=${one.created} /></td>
          <td>${one.expires ? time(one.expires) : "never"}</td><td><${State} token=${one} /></td>
          <td>${!one.revoked && html`<button type="button" class="small" aria-label=${`Revoke ${one.label || one.id}`} onClick=${() => setRevoked(one)}>Revoke…</button>`}</td></tr>`)}</tbody></table></div>`}
    ${revoked && html`<${ConfirmDialog} title=${`Revoke ${revoked.label || revoked.id}`} action="Revoke" danger=${true} onConfirm=${revoke} onClose=${() => setRevoked(null)}
      effect="Requests with this token are refused from now on. It can not be taken back; create another one instead.">
      <${CopyAs} words=${["token", "revoke", revoked.id]} method="DELETE" url=${`${URL_OF_TOKENS}/${revoked.id}`} /></${ConfirmDialog}>`}`;
}

/** @param {{ token: any }} props */
function State({ token }) {
  if (token.revoked) return html`<${StatusBadge} state="stopped" label="revoked" title=${time(token.revoked)} />`;
  if (token.expires && Date.parse(token.expires) < Date.now()) return html`<${StatusBadge} state="stopped" label="expired" />`;
  return html`<${StatusBadge} state="ok" label="valid" />`;
}

/** @param {{ onMade: () => void }} props */
function NewToken({ onMade }) {
  const [asked, setAsked] = useState({ label: "", role: "operator", namespace: "*", days: "" });
  const [made, setMade] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const id = useId();
  const body = { label: asked.label, role: asked.role, namespace: asked.namespace, ...(asked.days ? { validDays: Number(asked.days) } : {}) };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setProblem(null);
    try {
      const { data } = await request("POST", URL_OF_TOKENS, { body });
      setMade(data.token);
      setAsked({ ...asked, label: "" });
      onMade();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setAsked({ ...asked, [name]: event.target.value });
  return html`<form class="panel stack" onSubmit=${submit}>
    <h2>New token</h2>
    <div class="form-row">
      <div class="field"><label for=${`${id}-label`}>Label</label><input id=${`${id}-label`} required maxlength="200" value=${asked.label} placeholder="who or what uses it" onInput=${set("label")} /></div>
      <div class="field"><label for=${`${id}-role`}>Role</label><select id=${`${id}-role`} value=${asked.role} onChange=${set("role")}>${ROLES.map(([role]) => html`<option key=${role} value=${role}>${role}</option>`)}</select></div>
      <div class="field"><label for=${`${id}-namespace`}>Namespace</label><input id=${`${id}-namespace`} required value=${asked.namespace} onInput=${set("namespace")} /></div>
      <div class="field"><label for=${`${id}-days`}>Valid for days</label><input id=${`${id}-days`} type="number" min="1" max="3650" placeholder="until revoked" value=${asked.days} onInput=${set("days")} /></div>
    </div>
    <p class="muted">${ROLES.map(([role, does], index) => html`<strong>${role}</strong> ${index > 0 ? "also " : ""}${does}. `)} The namespace <code>*</code> means all of them.</p>
    ${problem && html`<${ProblemBox} problem=${problem} />`}
    <p class="actions"><button type="submit" class="primary">Create</button>
      <${CopyAs} words=${["token", "create", "--role", asked.role, ...(asked.namespace === "*" ? [] : ["--namespace", asked.namespace]), ...(asked.label ? ["--label", asked.label] : []), ...(asked.days ? ["--expires", `${asked.days}d`] : [])]} method="POST" url=${URL_OF_TOKENS} body=${body} /></p>
    ${made && html`<${Dialog} title="The new token" onClose=${() => setMade("")} actions=${html`<button type="button" class="primary" onClick=${() => setMade("")}>I have stored it</button>`}>
      <p>It is shown only now; the service keeps a hash of it.</p><pre class="json" tabindex="0" aria-label="Token">${made}</pre><${CopyButton} text=${made} label="Copy token" /></${Dialog}>`}
  </form>`;
}
