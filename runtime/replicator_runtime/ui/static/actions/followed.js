// @ts-check
/** What was asked for from this page, until its outcome is known: a request that a run carries out, or a job. */
import { html, signal } from "../core/html.js";
import { ApiProblem, request } from "../core/api.js";
import { CopyAs } from "../components/copy_button.js";
import { Icon } from "../components/icons.js";
import { withCode } from "../components/problem.js";

/**
 * @typedef {{
 *   key: number, title: string, url: string, state: "sent" | "waiting" | "running" | "done" | "failed",
 *   text: string, hint: string, job?: Record<string, any>, refused?: boolean, same?: Same,
 * }} Followed
 * @typedef {{ words: string[], method: string, url: string, body: unknown }} Same What was asked for, as a command and as a request.
 */

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5000;
/** Milliseconds for which an outcome without an answer to open is shown: Activity has it then. */
const SHOWN = 15_000;
const ENDED = new Set(["done", "refused", "failed", "withdrawn", "cancelled", "lost"]);

/** The newest first. */
export const followed = signal(/** @type {Followed[]} */ ([]));
/** Set to show the answer of a job. */
export const shownJob = signal(/** @type {Followed | null} */ (null));
let made = 0;

/** @param {number} key @param {Partial<Followed>} change */
function update(key, change) {
  followed.value = followed.value.map((one) => (one.key === key ? { ...one, ...change } : one));
}

/** @param {number} key */
export function forget(key) {
  followed.value = followed.value.filter((one) => one.key !== key);
}

/**
 * Send a request, and show what happens to it.
 * @param {string} title what was asked, for people
 * @param {() => Promise<{ url: string | null, text?: string }>} send gives where its outcome is; null when there is none
 * @param {(found: Record<string, any>) => void} [ended] called with the request or job when it has ended
 * @param {Same} [same] to be copied
 * @returns {Promise<boolean>} whether it was accepted
 */
export async function follow(title, send, ended, same) {
  const key = (made += 1);
  followed.value = [{ key, title, url: "", state: /** @type {const} */ ("sent"), text: "", hint: "", same }, ...followed.value].slice(0, 20);
  try {
    const { url, text } = await send();
    if (url === null) {
      update(key, { state: "done", text: text ?? "accepted" });
      return true;
    }
    update(key, { url, state: "waiting", text: "accepted; waits to be carried out" });
    void look(key, url, FIRST_WAIT, ended);
    return true;
  } catch (error) {
    update(key, { state: "failed", ...problemWords(error) });
    return false;
  }
}

/**
 * An error in words.
 * @param {unknown} error
 * @returns {{ text: string, hint: string }}
 */
export function problemWords(error) {
  if (!(error instanceof ApiProblem)) return { text: `the page has an error: ${String(error)}`, hint: "reload the page" };
  const parts = error.errors.map((one) => `${one.pointer}: ${one.message}`);
  const text = [error.code ? `${error.code}: ${error.message}` : error.message, ...parts].join("; ");
  return { text, hint: error.hint };
}

/** @param {number} key @param {string} url @param {number} wait @param {((found: Record<string, any>) => void) | undefined} ended */
async function look(key, url, wait, ended) {
  await new Promise((resolve) => setTimeout(resolve, wait));
  if (!followed.value.some((one) => one.key === key)) return;
  const next = Math.min(LONGEST_WAIT, wait * 1.5);
  try {
    const { data: found } = await request("GET", url);
    const change = outcome(found);
    update(key, change);
    if (change.state === "done" && !change.hint && !change.job?.["result"]) setTimeout(() => forget(key), SHOWN);
    if (ENDED.has(String(found["state"]))) {
      ended?.(found);
      return;
    }
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 404) {
      update(key, { state: "failed", text: "it is not known any more", hint: "" });
      return;
    }
  }
  void look(key, url, next, ended);
}

/** @param {Record<string, any>} found a request or a job @returns {Partial<Followed>} */
export function outcome(found) {
  const state = String(found["state"]);
  const envelope = found["result"];
  const error = envelope?.error ?? found["error"];
  const waits = found["state"] === "waiting" ? found["problem"] : null;
  const text = error ? `${error.code}: ${error.message}` : String(found["text"] ?? "");
  const job = envelope || found["command"] ? { job: found } : {};
  if (state === "done") return { state: "done", text, hint: error?.hint ?? "", ...job };
  if (ENDED.has(state)) return { state: "failed", text: text || state, hint: error?.hint ?? found["hint"] ?? "", ...job };
  if (waits?.message) return { state: "waiting", text: `${waits.code}: ${waits.message}`, hint: waits.hint ?? "", ...job };
  return { state: state === "running" ? "running" : "waiting", text: "", hint: "", ...job };
}

const WORDS = { sent: "is being sent", waiting: "waits", running: "runs", done: "done", failed: "not done" };
const ICONS = { sent: "waiting", waiting: "waiting", running: "running", done: "ok", failed: "error" };

/** The outcomes, at the end of the page; once in a page. */
export function FollowedPlace() {
  const list = followed.value;
  if (list.length === 0) return null;
  return html`<section class="followed" aria-label="What was asked for" aria-live="polite">
    <ul>
      ${list.map(
        (one) => html`<li key=${one.key} class=${`followed-${one.state}`}>
          <${Icon} name=${ICONS[one.state]} />
          <div>
            <strong>${one.title}</strong> <span class="word">${WORDS[one.state]}</span>
            ${one.text && one.text !== WORDS[one.state] && html`<p>${withCode(one.text)}</p>`}
            ${one.hint && html`<p class="hint">Next: ${withCode(one.hint)}</p>`}
            ${one.same && html`<${CopyAs} ...${one.same} />`}
            ${one.job?.["result"] && html`<button type="button" class="link" onClick=${() => (shownJob.value = one)}>Show the answer</button>`}
          </div>
          <button type="button" class="quiet small" aria-label=${`Close: ${one.title}`} onClick=${() => forget(one.key)}><${Icon} name="close" /></button>
        </li>`,
      )}
    </ul>
  </section>`;
}
