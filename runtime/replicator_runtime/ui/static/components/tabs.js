// @ts-check
import { html, useId, useRef } from "../core/html.js";

/**
 * Tabs, of which arrow keys change the shown one.
 * @param {{label: string, tabs: {key: string, label: any}[], shown: string, onShow: (key: string) => void, children?: any}} props
 */
export function Tabs({ label, tabs, shown, onShow, children }) {
  const id = useId();
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const move = (/** @type {KeyboardEvent} */ event) => {
    const at = tabs.findIndex((tab) => tab.key === shown);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    onShow(tabs[next].key);
    /** @type {HTMLElement | undefined} */ (list.current?.querySelectorAll('[role="tab"]')[next])?.focus();
  };
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
      ${tabs.map(
        (tab) => html`<button key=${tab.key} type="button" role="tab" id=${`${id}-${tab.key}`} aria-controls=${`${id}-panel`} aria-selected=${String(tab.key === shown)} tabindex=${tab.key === shown ? 0 : -1} onClick=${() => onShow(tab.key)}>${tab.label}</button>`,
      )}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${shown}`}>${children}</div>
  </div>`;
}
