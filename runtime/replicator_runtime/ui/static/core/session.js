// @ts-check
/** Who uses the page, and what they may do. */
import { computed, signal } from "./html.js";
import { ApiProblem, request, setCsrf } from "./api.js";

/** @typedef {import("./shapes.js").Session} Session */

/** `undefined` while the service has not answered, `null` when nobody is signed in. @type {{value: Session | null | undefined}} */
export const session = signal(/** @type {Session | null | undefined} */ (undefined));
/** Why the service could not be asked. @type {{value: ApiProblem | null}} */
export const sessionProblem = signal(/** @type {ApiProblem | null} */ (null));

const ORDER = ["viewer", "operator", "admin"];

/**
 * Whether the present user has a role.
 * @param {"viewer" | "operator" | "admin"} role
 */
export function may(role) {
  const found = session.value;
  return !!found && ORDER.indexOf(found.role) >= ORDER.indexOf(role);
}

export const signedIn = computed(() => !!session.value);

/** Asks the service who is signed in. */
export async function loadSession() {
  sessionProblem.value = null;
  try {
    const { data } = await request("GET", "/v1/session", { quiet401: true });
    take(data);
  } catch (error) {
    if (error instanceof ApiProblem && (error.status === 401 || error.status === 403)) session.value = null;
    else sessionProblem.value = /** @type {ApiProblem} */ (error);
  }
}

/**
 * Signs in with a token; the browser keeps a cookie that scripts cannot read.
 * @param {string} token
 */
export async function signIn(token) {
  const { data } = await request("POST", "/v1/session", { body: { token }, quiet401: true });
  take(data);
  if (!session.value) await loadSession();
}

/** Signs out. */
export async function signOut() {
  await request("DELETE", "/v1/session");
  setCsrf("");
  session.value = null;
}

/** @param {any} data */
function take(data) {
  if (!data || typeof data.role !== "string") return;
  setCsrf(data.csrf ?? "");
  session.value = data;
}

window.addEventListener("replicator:signed-out", () => {
  session.value = null;
});
