// @ts-check
/** The client of the service's REST API. Every action of the page is one of its public calls. */

/**
 * @typedef {object} Call
 * @property {unknown} [body] Sent as JSON.
 * @property {string} [etag] Sent as `If-Match`: the change is refused when another one came first.
 * @property {boolean} [create] Sends `If-None-Match: *`: refused when it exists.
 * @property {AbortSignal} [signal]
 * @property {string} [key] An `Idempotency-Key`, so that a repeated request acts once.
 * @property {boolean} [quiet401] Does not show the sign-in form when nobody is signed in.
 */

/**
 * @typedef {object} Answer
 * @property {any} data The JSON of the response; null when it has none.
 * @property {string} etag
 * @property {string | null} next The address of what follows in a long list.
 * @property {number} status
 */

/** An error of the service, with its code and the next step. */
export class ApiProblem extends Error {
  /**
   * @param {number} status 0 when the service did not answer.
   * @param {{code?: string, detail?: string, hint?: string, title?: string, errors?: {pointer: string, message: string}[], table?: string | null}} problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
    this.hint = problem.hint ?? "";
    this.table = problem.table ?? null;
    this.errors = problem.errors ?? [];
  }
}

const CSRF_HEADER = "X-CSRF-Token";
let csrf = "";

/**
 * Sets the value that proves that a request comes from this page.
 * @param {string} value
 */
export function setCsrf(value) {
  csrf = value;
}

/**
 * Sends a request.
 * @param {"GET" | "POST" | "PUT" | "DELETE"} method
 * @param {string} url Its path, with a query.
 * @param {Call} [call]
 * @returns {Promise<Answer>}
 * @throws {ApiProblem}
 */
export async function request(method, url, call = {}) {
  const response = await send(method, url, call);
  if (response.ok) return answer(response);
  const problem = new ApiProblem(response.status, await problemOf(response));
  if (response.status === 401 && !call.quiet401) window.dispatchEvent(new Event("replicator:signed-out"));
  throw problem;
}

/**
 * @param {string} method
 * @param {string} url
 * @param {Call} call
 */
async function send(method, url, call) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (call.body !== undefined) headers["Content-Type"] = "application/json";
  if (call.etag) headers["If-Match"] = call.etag;
  if (call.create) headers["If-None-Match"] = "*";
  if (call.key) headers["Idempotency-Key"] = call.key;
  if (method !== "GET" && csrf) headers[CSRF_HEADER] = csrf;
  try {
    return await fetch(url, {
      method,
      headers,
      body: call.body === undefined ? undefined : JSON.stringify(call.body),
      signal: call.signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiProblem(0, {
      detail: "the service does not answer",
      hint: "look whether `replicator serve` runs; the page tries again when you do",
    });
  }
}

/** @param {Response} response */
async function answer(response) {
  const text = await response.text();
  const link = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get("Link") ?? "");
  return {
    data: text ? JSON.parse(text) : null,
    etag: response.headers.get("ETag") ?? "",
    next: link ? link[1] : null,
    status: response.status,
  };
}

/** @param {Response} response */
async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return { detail: `the service answered with HTTP ${response.status}` };
  }
}

/**
 * All items of a list that comes in parts.
 * @param {string} url
 * @param {{signal?: AbortSignal}} [call]
 * @returns {Promise<any[]>}
 */
export async function all(url, call = {}) {
  /** @type {any[]} */
  const items = [];
  /** @type {string | null} */
  let next = url;
  while (next) {
    const found = /** @type {Answer} */ (await request("GET", next, call));
    items.push(...found.data);
    next = found.next;
  }
  return items;
}

/**
 * The address of something in a namespace: `/v1/contexts/NAMESPACE/…`, every part encoded.
 * @param {string} namespace
 * @param {...string} parts
 */
export function context(namespace, ...parts) {
  return "/v1/contexts/" + [namespace, ...parts].map((part) => encodeURIComponent(part)).join("/");
}

/** A new `Idempotency-Key`. */
export function newKey() {
  return crypto.randomUUID();
}
