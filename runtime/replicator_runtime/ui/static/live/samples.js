// @ts-check
/** What charts show: figures of one pipeline as they arrived while its page was open. */
import { signal } from "../core/html.js";

const MOST = 3600;

/**
 * @typedef {{
 *   at: number, lag: number | null, readLag: number | null, rate: number | null,
 *   held: number | null, waiting: number | null,
 * }} Sample `at` in seconds since 1970.
 */

/** Bounded; the oldest are dropped. */
export class Samples {
  constructor() {
    /** @type {Sample[]} */
    this.list = [];
    this.version = signal(0);
  }

  /** @param {Sample} sample */
  add(sample) {
    const last = this.list[this.list.length - 1];
    if (last && sample.at <= last.at) return; // repeated after a reconnect
    this.list.push(sample);
    if (this.list.length > MOST) this.list.splice(0, this.list.length - MOST);
    this.version.value += 1;
  }

  /**
   * One figure over time, as uPlot takes it.
   * @param {(keyof Sample)[]} names
   */
  columns(...names) {
    return names.map((name) => this.list.map((sample) => sample[name]));
  }
}
