// @ts-check
/** What every component writes with: `html`, Preact's hooks and signals. */
import htm from "htm";
import { h } from "preact";

export { Fragment, createContext, render } from "preact";
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";

/**
 * Writes elements: html`<p class="x">${text}</p>`. Values are text or elements, never HTML.
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => any}
 */
export const html = /** @type {any} */ (htm.bind(/** @type {any} */ (h)));
