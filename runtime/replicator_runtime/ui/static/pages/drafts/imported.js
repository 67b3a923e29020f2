// @ts-check
/** A pipeline's config from a text that someone gives: what the text has to be, and what is said where it is not. */

import { isObject } from "../create/config_edits.js";

/** What is wrong with a text, where, and what to do. */
export class ImportError extends Error {
  /** @param {string} pointer @param {string} message @param {string} hint */
  constructor(pointer, message, hint) {
    super(message);
    this.pointer = pointer;
    this.hint = hint;
  }
}

/**
 * The config in a pipeline's JSON, a draft, or an export of the page.
 * @param {string} text
 * @returns {Record<string, any>}
 */
export function imported(text) {
  const found = parsed(text);
  if (!isObject(found)) throw new ImportError("", "this JSON is no object, so it is no pipeline", "give a pipeline's JSON, as docs/configuration.md describes it");
  const at = isObject(found["config"]) && !("stages" in found) ? "/config" : "";
  const config = at ? found["config"] : found;
  if (!("stages" in config)) throw new ImportError(`${at}/stages`, "is missing, so this is no pipeline", "add `stages` with the source, and with the target when there is one");
  if (!Array.isArray(config.stages)) throw new ImportError(`${at}/stages`, "is no list", "write `stages` as a list of objects with `name` and `plugin`");
  config.stages.forEach((/** @type {unknown} */ stage, /** @type {number} */ index) => {
    if (!isObject(stage)) throw new ImportError(`${at}/stages/${index}`, "is no object", "write each stage as an object with `name` and `plugin`");
  });
  return { tables: [], ...(at && typeof found["name"] === "string" ? { name: found["name"] } : {}), ...config };
}

/** @param {string} text @returns {any} */
function parsed(text) {
  const whole = text.replace(/^\uFEFF/, "");
  try {
    return JSON.parse(whole);
  } catch {
    const before = whole.slice(0, wrongAt(whole)).split("\n");
    const place = `line ${before.length}, column ${(before[before.length - 1] ?? "").length + 1}`;
    throw new ImportError("", `${place}: this is not JSON`, "correct it there, or export the pipeline again");
  }
}

const TOKEN = /[\s]*("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[[\]{},:])/y;

/**
 * Where a text stops to be JSON; browsers say it in words that differ, or not at all.
 * @param {string} text
 */
export function wrongAt(text) {
  /** @type {string[]} */
  const open = [];
  let expected = "value";
  TOKEN.lastIndex = 0;
  for (;;) {
    const from = TOKEN.lastIndex;
    const token = TOKEN.exec(text)?.[1];
    const start = from + (/^\s*/.exec(text.slice(from, from + 100_000))?.[0].length ?? 0);
    const next = token === undefined ? null : after(token, expected, open);
    if (next === null) return start;
    expected = next;
  }
}

/**
 * What may follow a token; null where it may not be itself.
 * @param {string} token
 * @param {string} expected `value`, `first value` of a list, `name`, `first name` of an object, `colon`, `end` of a value.
 * @param {string[]} open The lists and objects around it; changed.
 */
function after(token, expected, open) {
  const inObject = open[open.length - 1] === "{";
  const closes = token === "]" || token === "}";
  if (closes) {
    if (inObject !== (token === "}") || open.length === 0 || !["end", "first value", "first name"].includes(expected)) return null;
    open.pop();
    return "end";
  }
  if (token === ",") return expected === "end" && open.length > 0 ? (inObject ? "name" : "value") : null;
  if (token === ":") return expected === "colon" ? "value" : null;
  if (expected.endsWith("name")) return token.startsWith('"') ? "colon" : null;
  if (!expected.endsWith("value")) return null;
  if (token === "[" || token === "{") {
    open.push(token);
    return token === "[" ? "first value" : "first name";
  }
  return "end";
}
