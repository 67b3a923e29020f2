// @ts-check
/** The tables of a draft's source, which several steps show. */
import { request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { pluginOf } from "./config_edits.js";

/** @typedef {import("./table_selection.js").SourceTable} SourceTable */

/** Tables by draft and settings of the source, so that going back and forth asks once. @type {Map<string, SourceTable[]>} */
const known = new Map();

/**
 * @param {import("./draft_store.js").DraftStore} store
 * @param {any} config
 */
export function useSourceTables(store, config) {
  const source = pluginOf(config, "cdcSource");
  const cacheKey = `${store.url} ${JSON.stringify(source)}`;
  const list = useResource(async (signal) => {
    const before = known.get(cacheKey);
    if (before) return before;
    if (!source) return [];
    await store.save();
    const { data } = await request("POST", `${store.url}/listTables`, { signal });
    known.set(cacheKey, data.tables);
    return /** @type {import("../../core/shapes.js").TableList} */ (data).tables;
  }, [cacheKey]);
  const refresh = () => {
    known.delete(cacheKey);
    list.reload();
  };
  return { ...list, refresh };
}
