// @ts-check
/** Says that what is shown may be old: the stream of events is broken. */
import { html, signal, useEffect } from "../core/html.js";
import { Icon } from "../components/icons.js";
import { time } from "../core/format.js";

const PATIENCE = 1500; // a service that is restarted quickly is not worth a message

/** @param {{ stream: import("./event_stream.js").EventStream }} props */
export function StaleBanner({ stream }) {
  const state = stream.state.value;
  const late = useLate(state === "broken" || state === "refused", stream);
  if (!late) return null;
  const since = new Date(stream.since.value).toISOString();
  return html`<div class="note warn stale" role="status">
    <${Icon} name="warning" />
    <div><p><strong>${stream.status === 401 ? "You are signed out." : "The service does not answer."}</strong>
      ${" "}What is shown was true at ${time(since)}; the page tries again by itself.</p></div>
    <button type="button" class="small" onClick=${stream.wake}>Try now</button>
  </div>`;
}

/** @param {boolean} broken @param {object} of */
function useLate(broken, of) {
  const late = useLateSignal(of);
  useEffect(() => {
    if (!broken) {
      late.value = false;
      return undefined;
    }
    const timer = setTimeout(() => (late.value = true), PATIENCE);
    return () => clearTimeout(timer);
  }, [broken, of]);
  return late.value;
}

/** @type {WeakMap<object, import("@preact/signals").Signal<boolean>>} */
const known = new WeakMap();

/** @param {object} of */
function useLateSignal(of) {
  let found = known.get(of);
  if (!found) {
    found = signal(false);
    known.set(of, found);
  }
  return found;
}
