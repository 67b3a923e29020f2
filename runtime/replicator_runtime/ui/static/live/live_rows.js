// @ts-check
/**
 * Rows that change all the time, of which a page shows a few.
 *
 * Changes are collected and applied together, at most four times a second, in an animation frame. Only a row that is
 * shown has a signal, so that a change of another one costs an entry in a map.
 */
import { batch, signal } from "../core/html.js";

const EVERY = 250;
const SORT_EVERY = 1000;
const ALL_FOLLOW_WITHIN = 3000;

/**
 * @template {object} Row
 */
export class LiveRows {
  /** @param {(row: Row) => string} keyOf */
  constructor(keyOf) {
    this.keyOf = keyOf;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {Map<string, import("@preact/signals").Signal<Row | undefined>>} */
    this.shown = new Map();
    /** Grows when rows came, went or changed, at most once a second: what sorts, filters or counts depends on it. */
    this.version = signal(0);
    /** @type {Map<string, Row | undefined>} */
    this.waiting = new Map();
    /** @type {Set<string> | null} */
    this.old = null;
    this.timer = 0;
    this.frame = 0;
    this.counted = 0;
    this.countTimer = 0;
    this.oldTimer = 0;
  }

  /**
   * The signal of a row that is shown.
   * @param {string} key
   */
  of(key) {
    let found = this.shown.get(key);
    if (!found) {
      found = signal(this.rows.get(key));
      this.shown.set(key, found);
    }
    return found;
  }

  /**
   * Rows are shown no more; the others keep their signals.
   * @param {ReadonlySet<string>} kept
   */
  keepOnly(kept) {
    for (const key of this.shown.keys()) if (!kept.has(key)) this.shown.delete(key);
  }

  /** All rows follow: those that do not come again within seconds are gone. */
  begin() {
    this.old = new Set(this.rows.keys());
    clearTimeout(this.oldTimer);
    this.oldTimer = window.setTimeout(() => {
      for (const key of this.old ?? []) this.remove(key);
      this.old = null;
    }, ALL_FOLLOW_WITHIN);
  }

  /**
   * A row has changed or is new.
   * @param {Row} row
   */
  put(row) {
    this.#change(this.keyOf(row), row);
  }

  /**
   * Rows of an answer: those that events have brought meanwhile are newer.
   * @param {Row[]} rows
   */
  fill(rows) {
    for (const row of rows) {
      const key = this.keyOf(row);
      if (!this.rows.has(key) && !this.waiting.has(key)) this.waiting.set(key, row);
    }
    this.#apply();
  }

  /**
   * Rows of an answer that is newer than all that is known: those that it lacks are gone.
   * @param {Row[]} rows
   */
  replace(rows) {
    const gone = new Set(this.rows.keys());
    for (const row of rows) {
      gone.delete(this.keyOf(row));
      this.put(row);
    }
    for (const key of gone) this.remove(key);
  }

  /** @param {string} key */
  remove(key) {
    this.#change(key, undefined);
  }

  /** Apply nothing any more. */
  stop() {
    clearTimeout(this.timer);
    clearTimeout(this.countTimer);
    clearTimeout(this.oldTimer);
    cancelAnimationFrame(this.frame);
    this.timer = this.frame = this.countTimer = this.oldTimer = 0;
  }

  /** @param {string} key @param {Row | undefined} row */
  #change(key, row) {
    this.old?.delete(key);
    this.waiting.set(key, row);
    if (this.timer) return;
    this.timer = window.setTimeout(() => {
      // A page that is not seen gets no animation frames.
      if (document.visibilityState === "hidden") this.#apply();
      else this.frame = requestAnimationFrame(() => this.#apply());
    }, EVERY);
  }

  #apply() {
    clearTimeout(this.timer);
    this.timer = 0;
    batch(() => {
      for (const [key, row] of this.waiting) {
        if (row) this.rows.set(key, row);
        else this.rows.delete(key);
        const shown = this.shown.get(key);
        if (shown) shown.value = row;
      }
    });
    this.waiting.clear();
    this.#count();
  }

  #count() {
    if (this.countTimer) return;
    const wait = this.counted + SORT_EVERY - performance.now();
    const count = () => {
      this.countTimer = 0;
      this.counted = performance.now();
      this.version.value += 1;
    };
    if (wait <= 0) count();
    else this.countTimer = window.setTimeout(count, wait);
  }
}
