// @ts-check
import { html } from "../../core/html.js";
import { path } from "../../core/router.js";
import { useResource } from "../../core/resource.js";
import { Loading } from "../../components/empty.js";
import { ProblemBox, withCode } from "../../components/problem.js";
import { Icon } from "../../components/icons.js";
import { settingsOf } from "../../components/form/schema.js";
import { CopyAs } from "../../components/copy_button.js";
import { plugin, plugins } from "./plugin_list.js";
import { Documentation } from "./plugin_docs.js";

/**
 * The installed plugins, or one with its settings.
 * @param {{values: Record<string, string>}} props
 */
export default function PluginsPage({ values }) {
  return values.type && values.name ? html`<${PluginPage} key=${values.name} type=${values.type} name=${values.name} />` : html`<${ListPage} />`;
}

function ListPage() {
  const list = useResource(plugins, []);
  const head = html`<div class="page-head"><h1>Plugins</h1><${CopyAs} words=${["plugins"]} method="GET" url="/v1/plugins" /></div>`;
  if (list.problem) return html`${head}<${ProblemBox} problem=${list.problem} retry=${list.reload} />`;
  if (!list.data) return html`${head}<${Loading} />`;
  const group = (/** @type {string} */ type, /** @type {string} */ title) => html`<section class="panel tight" aria-label=${title}><div class="panel-head"><h2>${title}</h2></div>
    <div class="scroll-x"><table class="plain"><thead><tr><th>Name</th><th>What it is</th><th>Package</th></tr></thead><tbody>
      ${list.data?.filter((one) => one.type === type).map((one) => html`<tr key=${one.name}><td><a href=${path("plugins", one.type, one.name)}>${one.name}</a></td><td>${one.title}</td><td><span class="muted">${one.package}</span></td></tr>`)}
    </tbody></table></div></section>`;
  return html`${head}${group("cdcSource", "Sources")}${group("cdcTarget", "Targets")}
    <p class="muted">More plugins are installed as Python packages on the machine of the service; they are listed here after it has started again.</p>`;
}

/** @param {{type: string, name: string}} props */
function PluginPage({ type, name }) {
  const found = useResource(() => plugin(type, name), [type, name]);
  const head = html`<p><a class="button quiet small" href="/plugins"><${Icon} name="left" />Plugins</a></p>
    <div class="page-head"><h1>${name}</h1><${CopyAs} words=${["plugins", name]} method="GET" url=${path("v1", "plugins", type, name)} /></div>`;
  if (found.problem) return html`${head}<${ProblemBox} problem=${found.problem} retry=${found.reload} />`;
  if (!found.data) return html`${head}<${Loading} />`;
  return html`${head}<p>${found.data.title} <span class="muted">(${found.data.package})</span></p>
    <section class="panel tight" aria-label="Settings"><div class="panel-head"><h2>Settings</h2></div><div class="scroll-x"><table class="plain"><thead><tr><th>Setting</th><th>Kind</th><th>Default</th><th>What it does</th></tr></thead><tbody>
      ${settingsOf(found.data.schema).map((one) => html`<tr key=${one.key}><td><code>${one.key}</code></td><td>${one.choices.length ? one.choices.join(", ") : one.kind}</td><td>${one.required ? "required" : shown(one.schema.default)}</td><td>${withCode(one.about)}</td></tr>`)}
    </tbody></table></div></section>
    ${found.data.documentation && html`<section class="panel" aria-label="Documentation"><${Documentation} text=${found.data.documentation} /></section>`}`;
}

/** @param {any} value */
function shown(value) {
  return value === undefined || value === null || value === "" ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}
