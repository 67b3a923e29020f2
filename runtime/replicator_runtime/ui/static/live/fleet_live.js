// @ts-check
/** All pipelines of a namespace, as they are now. */
import { signal } from "../core/html.js";
import { all, context } from "../core/api.js";
import { EventStream } from "./event_stream.js";
import { LiveRows } from "./live_rows.js";
import { Polling } from "./polling.js";

/** @typedef {import("./shapes.js").PipelineItem} PipelineItem */

export class FleetLive {
  /** @param {string} namespace */
  constructor(namespace) {
    this.namespace = namespace;
    this.rows = new LiveRows((/** @type {PipelineItem} */ item) => item.name);
    this.loaded = signal(false);
    /** @type {import("@preact/signals").Signal<unknown>} */
    this.problem = signal(null);
    this.stream = new EventStream(context(namespace, "events"), (event) => this.#take(event));
    this.polling = new Polling(this.stream, () => this.#refresh());
  }

  start() {
    void this.load();
    this.stream.start();
    this.polling.start();
  }

  stop() {
    this.polling.stop();
    this.stream.stop();
    this.rows.stop();
  }

  /** Ask for them once; the stream says what follows, and all again after a break. */
  async load() {
    try {
      this.rows.fill(await all(`${context(this.namespace, "pipelines")}?limit=500`));
      this.problem.value = null;
      this.loaded.value = true;
    } catch (error) {
      this.problem.value = error;
    }
  }

  /** Ask for them in place of the stream. */
  async #refresh() {
    this.rows.replace(await all(`${context(this.namespace, "pipelines")}?limit=500`));
    this.problem.value = null;
    this.loaded.value = true;
  }

  /** @param {import("./event_stream.js").ServerEvent} event */
  #take(event) {
    const data = JSON.parse(event.data);
    if (event.event === "begin") this.rows.begin();
    else if (event.event === "pipeline") this.rows.put(data);
    else if (event.event === "deleted") this.rows.remove(data.id ?? data.name);
    this.loaded.value = this.loaded.peek() || event.event === "pipeline";
  }
}
