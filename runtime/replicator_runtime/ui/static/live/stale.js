// @ts-check
/** Says that what is shown may be old: the stream of events is broken. */
import { html, signal, useEffect } from "../core/html.js";
import { Icon } from "../components/icons.js";
import { time } from "../core/format.js";

const PATIENCE = 1500; // a service that is restarted quickly is not worth a message

/** @param {{ stream: import("./event_stream.js").EventStream, polling: import("./polling.js").Polling }} props */
export function StaleBanner({ stream, polling }) {
  const state = stream.state.value;
  const late = useLate(state === "broken" || state === "refused", stream);
  if (polling.active.value) return html`<${Asking} stream=${stream} />`;
  if (!late) return null;
  const since = new Date(stream.since.value).toISOString();
  return html`<div class="note warn stale" role="status">
    <${Icon} name="warning" />
    <div><p><strong>${stream.status === 401 ? "You are signed out." : "The service does not answer."}</strong>
      ${" "}What is shown was true at ${time(since)}; the page tries again by itself.</p></div>
    <button type="button" class="small" onClick=${stream.wake}>Try now</button>
  </div>`;
}

/** @param {{ stream: import("./event_stream.js").EventStream }} props */
function Asking({ stream }) {
  return html`<div class="note warn stale" role="status">
    <${Icon} name="warning" />
    <div><p><strong>Events do not arrive: something between this page and the service holds them back.</strong>
      ${" "}The page asks every 5 seconds instead. Next: have the proxy pass them on at once, as <code>proxy_buffering off</code> of nginx does.</p></div>
    <button type="button" class="small" onClick=${() => stream.retry()}>Try the stream</button>
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
