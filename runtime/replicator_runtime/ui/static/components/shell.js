// @ts-check
/** The frame of every page: bar, navigation, the page's own part, messages. */
import { html, useEffect, useState } from "../core/html.js";
import { here, namespace, place, go } from "../core/router.js";
import { session, sessionProblem, loadSession, signOut } from "../core/session.js";
import { chooseTheme, theme } from "../core/theme.js";
import { Icon } from "./icons.js";
import { SignIn } from "./sign_in.js";
import { ProblemBox } from "./problem.js";
import { Loading, Empty } from "./empty.js";
import { Toasts, sayProblem } from "./toast.js";
import { NamespaceSwitch } from "./namespace_switch.js";

const SECTIONS = [
  { key: "pipelines", label: "Pipelines", to: () => here("pipelines") },
  { key: "create", label: "Create", to: () => here("create"), icon: "plus" },
  { key: "connections", label: "Connections", to: () => here("connections") },
  { key: "plugins", label: "Plugins", to: () => "/plugins" },
  { key: "settings", label: "Settings", to: () => "/settings" },
];

/** The whole page. */
export function Shell() {
  const shown = place.value.route?.section;
  const title = place.value.route?.title ?? "Not found";
  useEffect(() => {
    document.title = `${[place.value.values.name ?? place.value.values.draft, title].filter(Boolean).join(" · ")} – Replicator`;
  }, [title, place.value.path]);
  return html`<a class="skip" href="#main">Skip to content</a>
    <header class="bar">
      <a class="brand" href=${here("pipelines")}><${Icon} name="database" /><span>Replicator</span></a>
      ${session.value && html`<${NamespaceSwitch} current=${namespace()} />`}
      <span class="bar-gap"></span>
      <${ThemeSwitch} />
      ${session.value && html`<${Account} />`}
    </header>
    <nav class="sections" aria-label="Sections">
      <ul>
        ${SECTIONS.map(
          (section) => html`<li key=${section.key}><a href=${section.to()} aria-current=${section.key === shown ? "page" : undefined}><${Icon} name=${section.icon ?? section.key} /><span>${section.label}</span></a></li>`,
        )}
      </ul>
    </nav>
    <main id="main" tabindex="-1"><${Body} /></main>
    <${Toasts} />`;
}

function Body() {
  if (sessionProblem.value) return html`<h1>Replicator</h1><${ProblemBox} problem=${sessionProblem.value} retry=${loadSession} />`;
  if (session.value === undefined) return html`<${Loading} />`;
  if (session.value === null) return html`<${SignIn} />`;
  return html`<${Page} />`;
}

function Page() {
  const { route, values, query, path } = place.value;
  const [found, setFound] = useState(/** @type {{route: any, component?: any, error?: unknown}} */ ({ route: null }));
  useEffect(() => {
    let current = true;
    if (path === "/") go(here("pipelines"), { replace: true });
    if (!route) return undefined;
    route.load().then(
      (module) => current && setFound({ route, component: module.default }),
      (error) => current && setFound({ route, error }),
    );
    return () => {
      current = false;
    };
  }, [route, path === "/"]);
  if (!route) return path === "/" ? null : html`<h1>Not found</h1><${Empty} title="There is no page at this address" action=${html`<a class="button" href=${here("pipelines")}>Show pipelines</a>`}><p><code>${path}</code></p></${Empty}>`;
  if (found.route !== route) return html`<${Loading} />`;
  if (found.error) {
    return html`<h1>${route.title}</h1><${Empty} title="This part of the page cannot be loaded" action=${html`<button type="button" onClick=${() => window.location.reload()}>Reload</button>`}><p>The service may have another release than the page. Reload it.</p></${Empty}>`;
  }
  return html`<${found.component} values=${values} query=${query} />`;
}

function ThemeSwitch() {
  /** @type {import("../core/theme.js").Theme[]} */
  const order = ["system", "light", "dark"];
  const next = order[(order.indexOf(theme.value) + 1) % order.length];
  return html`<button type="button" class="quiet" title=${`Theme: ${theme.value}`} aria-label=${`Theme: ${theme.value}. Change to ${next}`} onClick=${() => chooseTheme(next)}><${Icon} name=${theme.value} /></button>`;
}

function Account() {
  const found = session.value;
  if (!found) return null;
  const leave = () => signOut().catch(sayProblem);
  return html`<span class="account" title=${`Role ${found.role} in ${found.namespace === "*" ? "all namespaces" : found.namespace}`}>
      <span class="account-name">${found.name}</span><span class="account-role">${found.role}</span>
    </span>
    ${found.name !== "local" && html`<button type="button" class="quiet small" onClick=${leave}>Sign out</button>`}`;
}
