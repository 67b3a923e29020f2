// @ts-check
/** What the service finds wrong with a config, without connecting to anything. */
import { useEffect, useState } from "../../core/html.js";
import { context, request } from "../../core/api.js";

/**
 * @typedef {object} Validation
 * @property {Record<string, string>} errors Messages by JSON Pointer.
 * @property {boolean} known Whether the service has looked at the present config.
 */

const AFTER = 1000;
/** What was found last, and in which config: going back and forth asks once. @type {{written: string, found: Validation} | null} */
let last = null;

/**
 * Validates the config shortly after each change, which is one command of the service.
 * @param {import("./draft_store.js").DraftStore} store
 * @param {boolean} wanted Whether the shown step has a form for it.
 * @returns {Validation}
 */
export function useValidation(store, wanted) {
  const config = store.config.value;
  const [found, setFound] = useState(/** @type {Validation} */ ({ errors: {}, known: false }));
  useEffect(() => {
    if (!wanted || !store.name || !config.stages?.length) return undefined;
    const written = JSON.stringify(config);
    if (last?.written === written) return setFound(last.found);
    const control = new AbortController();
    setFound((before) => ({ ...before, known: false }));
    const timer = setTimeout(async () => {
      try {
        const { data } = await request("POST", context(store.namespace, "validate"), { body: config, signal: control.signal });
        const { errors } = /** @type {import("../../core/shapes.js").Validation} */ (data);
        last = { written, found: { errors: Object.fromEntries(errors.map((one) => [one.pointer, sentence(one)])), known: true } };
        setFound(last.found);
      } catch {
        // The form shows what it knows itself; the assessment shows the rest.
      }
    }, AFTER);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [config, store, wanted]);
  return found;
}

/** @param {{message: string, hint?: string}} one */
function sentence(one) {
  return one.hint ? `${one.message}: ${one.hint}` : one.message;
}

/**
 * Errors below a pointer, by the next part of theirs.
 * @param {Record<string, string>} errors
 * @param {string} pointer
 * @returns {Record<string, string>}
 */
export function below(errors, pointer) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const [at, message] of Object.entries(errors)) {
    if (at.startsWith(`${pointer}/`)) found[at.slice(pointer.length + 1).split("/")[0].replace(/~1/g, "/").replace(/~0/g, "~")] ??= message;
  }
  return found;
}
