// @ts-check
/** Addresses of the page: which module shows which, back and forward, reload. */
import { signal } from "./html.js";
import { ROUTES } from "../pages/routes.js";

/**
 * @typedef {object} Place
 * @property {string} path The address' path.
 * @property {URLSearchParams} query
 * @property {Record<string, string>} values What the path's `:names` are, decoded.
 * @property {import("../pages/routes.js").Route | null} route
 */

/** @type {{value: Place}} */
export const place = signal(/** @type {Place} */ (read()));

/** @type {Set<(to: string) => boolean>} */
const guards = new Set();

/** @returns {Place} */
function read() {
  const { pathname, search } = window.location;
  const query = new URLSearchParams(search);
  for (const route of ROUTES) {
    const values = match(route.path, pathname);
    if (values) return { path: pathname, query, values, route };
  }
  return { path: pathname, query, values: {}, route: null };
}

/**
 * The values of a pattern's names in a path, or null when it is another path.
 * @param {string} pattern `/ns/:namespace/pipelines/:name`; a `?` after a name lets it be left out.
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (given.length > wanted.length) return null;
  /** @type {Record<string, string>} */
  const values = {};
  for (const [index, part] of wanted.entries()) {
    const text = given[index];
    if (part.startsWith(":")) {
      const optional = part.endsWith("?");
      if (text === undefined) {
        if (optional) continue;
        return null;
      }
      try {
        values[part.slice(1, optional ? -1 : undefined)] = decodeURIComponent(text);
      } catch {
        return null;
      }
    } else if (part !== text) return null;
  }
  return values;
}

/**
 * A path of the page: every part is encoded, so that no name changes its meaning.
 * @param {...string} parts
 * @returns {string}
 */
export function path(...parts) {
  return "/" + parts.map((part) => encodeURIComponent(part)).join("/");
}

/** The namespace that is shown. */
export function namespace() {
  return place.value.values.namespace ?? lastNamespace();
}

const NAMESPACE = "replicator.namespace";

function lastNamespace() {
  try {
    return localStorage.getItem(NAMESPACE) ?? "default";
  } catch {
    return "default";
  }
}

/**
 * The path of a page in the namespace that is shown.
 * @param {...string} parts
 */
export function here(...parts) {
  return path("ns", namespace(), ...parts);
}

/**
 * Goes to an address of the page.
 * @param {string} to Path and query.
 * @param {{replace?: boolean}} [how] `replace`: Back does not return to the present one.
 */
export function go(to, how = {}) {
  if (to === window.location.pathname + window.location.search) return;
  for (const guard of guards) if (!guard(to)) return;
  const before = place.value.path;
  if (how.replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  arrive(before);
}

/**
 * Asks before the reader leaves; returns what ends the asking.
 * @param {(to: string) => boolean} guard False when the reader stays.
 * @returns {() => void}
 */
export function guardLeaving(guard) {
  guards.add(guard);
  return () => guards.delete(guard);
}

/**
 * Changes the query of the present address, without a new entry in the history.
 * @param {Record<string, string | null>} changes null removes one.
 */
export function setQuery(changes) {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", window.location.pathname + (text ? `?${text}` : ""));
  place.value = read();
}

/** @param {string} before */
function arrive(before) {
  place.value = read();
  const known = place.value.values.namespace;
  if (known) {
    try {
      localStorage.setItem(NAMESPACE, known);
    } catch {
      // The next visit begins in the default namespace.
    }
  }
  if (place.value.path !== before) {
    window.scrollTo(0, 0);
    requestAnimationFrame(() => {
      const main = document.getElementById("main");
      // A page may have put the focus where typing begins.
      if (main && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
    });
  }
}

/** Follows links and the history. */
export function startRouter() {
  window.addEventListener("popstate", () => arrive(place.value.path));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== window.location.origin || link.getAttribute("href")?.startsWith("#")) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
