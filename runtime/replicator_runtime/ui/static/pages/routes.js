// @ts-check
/** The addresses of the page and the module that shows each. The first that matches counts. */

/**
 * @typedef {object} Route
 * @property {string} path See `match` in core/router.js.
 * @property {string} title Of the browser's window.
 * @property {string} section The entry of the navigation that is marked.
 * @property {() => Promise<{default: any}>} load The module; its default export is the component, with `values` and `query`.
 */

/** @type {Route[]} */
export const ROUTES = [
  { path: "/ns/:namespace/drafts", title: "Drafts", section: "create", load: () => import("./drafts/drafts_page.js") },
  { path: "/ns/:namespace/create/:draft?/:step?", title: "Create", section: "create", load: () => import("./create/create_page.js") },
  { path: "/ns/:namespace/connections/:name?", title: "Connections", section: "connections", load: () => import("./connections/connections_page.js") },
  { path: "/plugins/:type?/:name?", title: "Plugins", section: "plugins", load: () => import("./plugins/plugins_page.js") },
  { path: "/settings/:tab?", title: "Settings", section: "settings", load: () => import("./settings/settings_page.js") },
  { path: "/ns/:namespace/pipelines", title: "Pipelines", section: "pipelines", load: () => import("./fleet/fleet_page.js") },
  { path: "/ns/:namespace/pipelines/:name/:tab?", title: "Pipeline", section: "pipelines", load: () => import("./pipeline/pipeline_page.js") },
];
