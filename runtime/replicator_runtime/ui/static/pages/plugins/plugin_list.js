// @ts-check
/** Installed plugins; asked once, since they change with an installation only. */
import { request } from "../../core/api.js";

/** @typedef {import("../../core/shapes.js").PluginItem} PluginItem */
/** @typedef {import("../../core/shapes.js").PluginDetail} PluginDetail */

/** @type {Promise<PluginItem[]> | null} */
let list = null;
/** @type {Map<string, Promise<PluginDetail>>} */
const details = new Map();

/** @returns {Promise<PluginItem[]>} */
export function plugins() {
  list ??= request("GET", "/v1/plugins").then(
    ({ data }) => data,
    (error) => {
      list = null;
      throw error;
    },
  );
  return list;
}

/**
 * @param {string} type
 * @param {string} name
 * @returns {Promise<PluginDetail>}
 */
export function plugin(type, name) {
  const key = `${type}/${name}`;
  const found =
    details.get(key) ??
    request("GET", `/v1/plugins/${encodeURIComponent(type)}/${encodeURIComponent(name)}`).then(
      ({ data }) => data,
      (error) => {
        details.delete(key);
        throw error;
      },
    );
  details.set(key, found);
  return found;
}
