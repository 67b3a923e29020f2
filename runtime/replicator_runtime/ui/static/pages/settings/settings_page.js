// @ts-check
/** Tokens and the audit log, for admins; how the page looks, for everyone. */
import { html } from "../../core/html.js";
import { go } from "../../core/router.js";
import { session } from "../../core/session.js";
import { chooseTheme, theme } from "../../core/theme.js";
import { Empty } from "../../components/empty.js";
import { Tabs } from "../../components/tabs.js";
import { whyNot } from "../../actions/actions.js";
import { Audit } from "./audit.js";
import { Tokens } from "./tokens.js";

const TABS = [
  { key: "tokens", label: "Tokens" },
  { key: "audit", label: "Audit" },
  { key: "appearance", label: "Appearance" },
];

/** @param {{ values: Record<string, string>, query: URLSearchParams }} props */
export default function SettingsPage({ values, query }) {
  const shown = TABS.some((tab) => tab.key === values["tab"]) ? /** @type {string} */ (values["tab"]) : "tokens";
  return html`<div class="page-head"><h1>Settings</h1></div>
    <${Tabs} label="Settings" tabs=${TABS} shown=${shown} onShow=${(/** @type {string} */ key) => go(`/settings/${key}`, { replace: true })}>
      ${shown === "appearance" ? html`<${Appearance} />` : html`<${ForAdmins}>${shown === "tokens" ? html`<${Tokens} />` : html`<${Audit} query=${query} />`}</${ForAdmins}>`}
    </${Tabs}>`;
}

/** @param {{ children?: any }} props */
function ForAdmins({ children }) {
  const refused = whyNot({ role: "admin" }, session.value?.role);
  if (refused || (session.value && session.value.namespace !== "*")) {
    return html`<${Empty} title="For admins of the whole service"><p>${refused ?? `Your token is for the namespace ${session.value?.namespace}.`} An admin creates tokens with <code>replicator token create --role admin</code>.</p></${Empty}>`;
  }
  return children;
}

function Appearance() {
  return html`<fieldset class="panel"><legend>Theme</legend>
    ${/** @type {const} */ (["system", "light", "dark"]).map((one) => html`<label class="check" key=${one}><input type="radio" name="theme" value=${one} checked=${theme.value === one} onChange=${() => chooseTheme(one)} /> ${one === "system" ? "as the system" : one}</label>`)}
  </fieldset>`;
}
