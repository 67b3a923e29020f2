// @ts-check
import { html, useEffect, useId, useRef, useState } from "../core/html.js";
import { Icon } from "./icons.js";

/**
 * A dialog above the page; Escape closes it, and the focus returns to where it was.
 * @param {{title: string, onClose: () => void, children?: any, wide?: boolean, actions?: any}} props
 */
export function Dialog({ title, onClose, children, wide, actions }) {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    place.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return html`<dialog ref=${place} class=${wide ? "dialog wide" : "dialog"} aria-labelledby=${id} onCancel=${(/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  }}>
    <header><h2 id=${id}>${title}</h2><button type="button" class="quiet small" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
    <div class="dialog-body">${children}</div>
    ${actions && html`<footer>${actions}</footer>`}
  </dialog>`;
}

/**
 * Asks before something that cannot be taken back; `typed` has its name typed first.
 * @param {{title: string, effect: any, action: string, onConfirm: () => Promise<void> | void, onClose: () => void, typed?: string, danger?: boolean, children?: any}} props
 */
export function ConfirmDialog({ title, effect, action, onConfirm, onClose, typed, danger = true, children }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const id = useId();
  const act = async () => {
    setBusy(true);
    try {
      await onConfirm();
    } finally {
      setBusy(false);
    }
  };
  const actions = html`<button type="button" onClick=${onClose}>Cancel</button>
    <button type="button" class=${danger ? "danger" : "primary"} disabled=${busy || (typed !== undefined && text !== typed)} onClick=${act}>${action}</button>`;
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${actions}>
    <p>${effect}</p>
    ${children}
    ${typed !== undefined && html`<div class="field"><label for=${id}>Type <strong>${typed}</strong> to confirm</label>
      <input id=${id} value=${text} autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></div>`}
  </${Dialog}>`;
}
