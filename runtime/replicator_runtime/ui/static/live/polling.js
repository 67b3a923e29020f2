// @ts-check
/**
 * Asks from time to time while a stream of events brings nothing, such as one that a proxy gathers or refuses.
 *
 * What is asked for comes only where the service answers. Where it does not, the service is away, and the stream says so.
 */
import { effect, signal } from "../core/html.js";

const PATIENCE = 6000; // the service begins each stream with events at once
const EVERY = 5000;

/** In place of one stream, from `start` to `stop`. */
export class Polling {
  /**
   * @param {import("./event_stream.js").EventStream} stream
   * @param {() => Promise<unknown>} ask Asks for all of it, and shows it.
   */
  constructor(stream, ask) {
    this.stream = stream;
    this.ask = ask;
    /** Whether what is shown was asked for: the service answers, and the stream brings nothing. */
    this.active = signal(false);
    this.answers = 0;
    this.timer = 0;
    this.end = () => {};
  }

  get #needed() {
    return ["opening", "broken"].includes(this.stream.state.peek());
  }

  start() {
    this.end = effect(() => {
      void this.stream.state.value;
      clearTimeout(this.timer);
      if (this.#needed) this.#later(this.answers ? EVERY : PATIENCE);
      else {
        this.answers = 0;
        this.active.value = false;
      }
    });
  }

  stop() {
    this.end();
    clearTimeout(this.timer);
    this.timer = 0;
  }

  /** @param {number} wait */
  #later(wait) {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.#poll(), wait);
  }

  async #poll() {
    const asked = this.timer;
    const answered = document.visibilityState === "visible" && (await this.ask().then(() => true, () => false));
    if (this.timer !== asked || !this.#needed) return;
    this.answers = answered ? this.answers + 1 : 0;
    // A service that has just come back gets its stream first.
    if (this.answers === 1) this.stream.retry();
    this.active.value = this.answers > 1;
    this.#later(EVERY);
  }
}
