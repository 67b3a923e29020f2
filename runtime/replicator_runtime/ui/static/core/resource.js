// @ts-check
/** What a component reads from the service: loading, then data or a problem. */
import { useCallback, useEffect, useState } from "./html.js";
import { ApiProblem } from "./api.js";

/**
 * @template T
 * @typedef {object} Resource
 * @property {T | null} data
 * @property {ApiProblem | null} problem
 * @property {boolean} loading
 * @property {() => void} reload
 * @property {(data: T) => void} set
 */

/**
 * Reads something once, and again when `inputs` change or on `reload()`.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} read
 * @param {unknown[]} inputs
 * @returns {Resource<T>}
 */
export function useResource(read, inputs) {
  const [state, setState] = useState(/** @type {{data: T | null, problem: ApiProblem | null, loading: boolean}} */ ({ data: null, problem: null, loading: true }));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    read(control.signal).then(
      (data) => {
        if (!control.signal.aborted) setState({ data, problem: null, loading: false });
      },
      (error) => {
        if (!control.signal.aborted) setState({ data: null, problem: asProblem(error), loading: false });
      },
    );
    return () => control.abort();
  }, [...inputs, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const set = useCallback((/** @type {T} */ data) => setState({ data, problem: null, loading: false }), []);
  return { ...state, reload, set };
}

/**
 * Any error as one that can be shown.
 * @param {unknown} error
 * @returns {ApiProblem}
 */
export function asProblem(error) {
  if (error instanceof ApiProblem) return error;
  return new ApiProblem(0, { detail: error instanceof Error ? error.message : String(error), hint: "reload the page" });
}
