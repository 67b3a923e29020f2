// @ts-check
/** A menu at a button or a row: arrows move in it, letters find, Escape and Tab close it and give the focus back. */
import { html, signal, useLayoutEffect, useRef } from "../core/html.js";

/**
 * @typedef {{ label: string, run: () => void, danger?: boolean, refused?: string }} MenuItem `refused` says why it cannot
 *   be chosen.
 */

/** @type {import("@preact/signals").Signal<{ items: MenuItem[], at: DOMRect, label: string, back: HTMLElement | null } | null>} */
const open = signal(null);

/**
 * @param {MenuItem[]} items
 * @param {DOMRect} at
 * @param {string} label
 */
export function openMenu(items, at, label) {
  const back = document.activeElement;
  open.value = { items, at, label, back: back instanceof HTMLElement ? back : null };
}

/** Close it. @param {boolean} [focus] whether the focus goes back to where it was */
export function closeMenu(focus = true) {
  const closed = open.peek();
  open.value = null;
  if (focus) closed?.back?.focus();
}

/** Where the menu is shown; once in a page. */
export function MenuPlace() {
  const shown = open.value;
  return shown ? html`<${Menu} key=${shown} ...${shown} />` : null;
}

/** @param {{ items: MenuItem[], at: DOMRect, label: string }} props */
function Menu({ items, at, label }) {
  const list = useRef(/** @type {HTMLDivElement | null} */ (null));
  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return undefined;
    const { width, height } = element.getBoundingClientRect();
    const below = at.bottom + height <= window.innerHeight || at.top < height;
    element.style.left = `${Math.max(8, Math.min(at.right - width, window.innerWidth - width - 8))}px`;
    element.style.top = `${Math.max(8, below ? Math.min(at.bottom, window.innerHeight - height - 8) : at.top - height)}px`;
    focusable(element)[0]?.focus();
    /** @param {Event} event */
    const outside = (event) => {
      // The target of `resize` is the window, which is no node.
      if (!(event.target instanceof Node) || !element.contains(event.target)) closeMenu(false);
    };
    // The key may come before the focus is in the menu.
    /** @param {KeyboardEvent} event */
    const escape = (event) => {
      if (event.key === "Escape") closeMenu();
    };
    document.addEventListener("mousedown", outside);
    document.addEventListener("keydown", escape);
    window.addEventListener("resize", outside);
    return () => {
      document.removeEventListener("mousedown", outside);
      document.removeEventListener("keydown", escape);
      window.removeEventListener("resize", outside);
    };
  }, []);

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const all = list.current ? focusable(list.current) : [];
    const index = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: index + 1, ArrowUp: index - 1 + all.length, Home: 0, End: all.length - 1 };
    const to = moves[event.key];
    const letter = event.key.length === 1 ? event.key.toLowerCase() : "";
    if (to !== undefined) all[to % all.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") closeMenu();
    else if (letter && letter !== " ") {
      const from = [...all.slice(index + 1), ...all.slice(0, index + 1)];
      from.find((one) => one.textContent?.trim().toLowerCase().startsWith(letter))?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="menu" role="menu" aria-label=${label} ref=${list} onKeyDown=${onKey}>
    ${items.map(
      (item) => html`<button
        type="button" role="menuitem" tabindex="-1" key=${item.label}
        class=${item.danger ? "danger" : ""} aria-disabled=${item.refused ? "true" : undefined} title=${item.refused}
        onClick=${() => {
          if (item.refused) return;
          closeMenu();
          item.run();
        }}
      >${item.label}</button>`,
    )}
  </div>`;
}

/** @param {HTMLElement} element */
const focusable = (element) => /** @type {HTMLElement[]} */ ([...element.querySelectorAll("[role=menuitem]")]);
