// @ts-check
/**
 * Follows one event stream of the service.
 *
 * It is read by `fetch` and not by `EventSource`, which gives up at an HTTP error, hides its status, and does not notice
 * a connection that is dead. A stream that breaks is opened again with `Last-Event-ID`.
 */
import { signal } from "../core/html.js";

/** @typedef {{ id: string, event: string, data: string }} ServerEvent */
/** @typedef {"opening" | "open" | "silent" | "broken" | "refused" | "paused"} StreamState */

const SILENCE = 45_000; // the service sends a ping every 15 seconds
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const HIDDEN_FOR = 60_000; // browsers have six connections per host: pages that no one sees give theirs back

/** Splits the text of a stream into events, however it is cut into pieces. */
export class EventParser {
  constructor() {
    this.rest = "";
    this.lastId = "";
    this.event = "";
    /** @type {string[]} */
    this.lines = [];
  }

  /**
   * The events that end in this piece.
   * @param {string} piece
   * @returns {ServerEvent[]}
   */
  push(piece) {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    /** @type {ServerEvent[]} */
    const events = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line !== "") this.#field(line);
      else if (this.lines.length > 0) {
        events.push({ id: this.lastId, event: this.event || "message", data: this.lines.join("\n") });
        this.lines = [];
        this.event = "";
      }
    }
    return events;
  }

  /** @param {string} line */
  #field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, such as a ping
    const name = colon < 0 ? line : line.slice(0, colon);
    const start = line[colon + 1] === " " ? colon + 2 : colon + 1;
    const value = colon < 0 ? "" : line.slice(start);
    if (name === "data") this.lines.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id") this.lastId = value;
  }
}

/** One stream, from `start` to `stop`. */
export class EventStream {
  /**
   * @param {string} url
   * @param {(event: ServerEvent) => void} take Called for each event, in order.
   */
  constructor(url, take) {
    this.url = url;
    this.take = take;
    /** What the page says of it. */
    this.state = signal(/** @type {StreamState} */ ("opening"));
    /** Since when it has been as `state` says. */
    this.since = signal(Date.now());
    /** The HTTP status by which it was refused; 0 for none. */
    this.status = 0;
    this.lastId = "";
    this.failures = 0;
    this.running = false;
    /** @type {AbortController | null} */
    this.controller = null;
    this.timer = 0;
    this.hiddenTimer = 0;
    this.wake = () => this.#wake();
    this.visibility = () => this.#visibility();
  }

  /** Begin. */
  start() {
    this.running = true;
    window.addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.visibility);
    void this.#open();
  }

  /** End it; no callback follows. */
  stop() {
    this.running = false;
    window.removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.visibility);
    this.#close();
  }

  /** Open it again at once, also where it is open and brings nothing. */
  retry() {
    if (!this.running) return;
    this.#close();
    void this.#open();
  }

  #close() {
    clearTimeout(this.timer);
    clearTimeout(this.hiddenTimer);
    this.controller?.abort();
    this.controller = null;
  }

  /** Try at once what would be tried later. */
  #wake() {
    if (!this.running || this.controller) return;
    clearTimeout(this.timer);
    void this.#open();
  }

  #visibility() {
    clearTimeout(this.hiddenTimer);
    if (document.visibilityState === "visible") {
      this.#wake();
      return;
    }
    this.hiddenTimer = window.setTimeout(() => {
      this.#close();
      this.#become("paused");
    }, HIDDEN_FOR);
  }

  /** @param {StreamState} state */
  #become(state) {
    if (this.state.peek() === state) return;
    this.state.value = state;
    this.since.value = Date.now();
  }

  async #open() {
    const controller = new AbortController();
    this.controller = controller;
    try {
      const response = await fetch(this.url, {
        headers: { Accept: "text/event-stream", ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}) },
        credentials: "same-origin",
        cache: "no-store",
        signal: controller.signal,
      });
      if (!response.ok || !response.body) {
        this.status = response.status;
        await response.body?.cancel();
        throw new Error(String(response.status));
      }
      this.status = 0;
      await this.#read(response.body.getReader(), controller);
    } catch {
      // What follows is the same as when the service ends the stream.
    }
    if (this.controller === controller) this.#again(controller);
  }

  /**
   * @param {ReadableStreamDefaultReader<Uint8Array>} reader
   * @param {AbortController} controller
   */
  async #read(reader, controller) {
    const parser = new EventParser();
    const decoder = new TextDecoder();
    // Something in between may have answered, and gather what follows: only one that has brought events is open.
    if (this.lastId) this.#become("open");
    for (;;) {
      const silence = setTimeout(() => controller.abort(), SILENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done || controller.signal.aborted) return;
      this.failures = 0;
      this.#become("open");
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        if (event.id) this.lastId = event.id; // not the parser's: its event may never become whole
        this.take(event);
      }
    }
  }

  /** @param {AbortController} controller */
  #again(controller) {
    controller.abort();
    this.controller = null;
    if (!this.running) return;
    const refused = [401, 403, 404, 410].includes(this.status);
    this.#become(refused ? "refused" : "broken");
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.failures) * (0.75 + Math.random() / 2);
    this.failures += 1;
    this.timer = window.setTimeout(() => this.#wake(), refused ? LONGEST_WAIT * 3 : wait);
  }
}
