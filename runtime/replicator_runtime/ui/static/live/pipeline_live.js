// @ts-check
/** One pipeline with its tables, as they are now. */
import { signal } from "../core/html.js";
import { all, context, request } from "../core/api.js";
import { EventStream } from "./event_stream.js";
import { LiveRows } from "./live_rows.js";
import { Polling } from "./polling.js";
import { Samples } from "./samples.js";

/** @typedef {import("./shapes.js").PipelineItem} PipelineItem */
/** @typedef {import("./shapes.js").TableRow} TableRow */

export class PipelineLive {
  /** @param {string} namespace @param {string} name */
  constructor(namespace, name) {
    this.namespace = namespace;
    this.name = name;
    /** @type {import("@preact/signals").Signal<PipelineItem | null>} */
    this.item = signal(null);
    /** @type {import("@preact/signals").Signal<Record<string, any> | null>} */
    this.status = signal(null);
    this.tables = new LiveRows((/** @type {TableRow} */ row) => row.id);
    this.samples = new Samples();
    this.tablesLoaded = signal(false);
    /** @type {import("@preact/signals").Signal<unknown>} */
    this.problem = signal(null);
    this.gone = signal(false);
    /** @type {Map<string, { at: number, percent: number }>} */
    this.copies = new Map();
    this.stream = new EventStream(this.url("events"), (event) => this.#take(event));
    this.polling = new Polling(this.stream, () => this.#refresh());
  }

  /** @param {...string} parts below the pipeline's address */
  url(...parts) {
    return context(this.namespace, "pipelines", this.name, ...parts);
  }

  start() {
    void this.load();
    this.stream.start();
    this.polling.start();
  }

  stop() {
    this.polling.stop();
    this.stream.stop();
    this.tables.stop();
  }

  /** Ask for all of it once; the stream says what follows, and all again after a break. */
  async load() {
    try {
      this.item.value = (await request("GET", this.url())).data;
      await Promise.all([this.#loadStatus(), this.#loadTables()]);
      this.problem.value = null;
    } catch (error) {
      this.problem.value = error;
    }
  }

  async #loadStatus() {
    const found = await unlessNone(request("GET", this.url("status")));
    if (found && !this.status.peek()) this.#takeStatus(found.data);
  }

  async #loadTables() {
    this.tables.fill((await unlessNone(all(`${this.url("tables")}?limit=500`))) ?? []);
    this.tablesLoaded.value = true;
  }

  /** Ask for all of it in place of the stream. */
  async #refresh() {
    const found = await unlessNone(request("GET", this.url()));
    this.gone.value = !found;
    if (!found) return;
    this.item.value = found.data;
    const status = await unlessNone(request("GET", this.url("status")));
    if (status && status.data["updated"] !== this.status.peek()?.["updated"]) this.#takeStatus(status.data);
    const rows = (await unlessNone(all(`${this.url("tables")}?limit=500`))) ?? [];
    rows.forEach((row) => this.#watchCopy(row));
    this.tables.replace(rows);
    this.tablesLoaded.value = true;
    this.problem.value = null;
  }

  /** @param {import("./event_stream.js").ServerEvent} event */
  #take(event) {
    const data = JSON.parse(event.data);
    if (event.event === "begin") this.tables.begin();
    else if (event.event === "table") {
      this.#watchCopy(data);
      this.tables.put(data);
    } else if (event.event === "status") this.#takeStatus(data);
    else if (event.event === "pipeline") {
      this.item.value = { ...this.item.peek(), ...data };
      this.gone.value = false;
    } else if (event.event === "deleted" && data.kind === "table") this.tables.remove(data.id);
    else if (event.event === "deleted" && data.kind === "pipeline") this.gone.value = true;
  }

  /** @param {Record<string, any>} status */
  #takeStatus(status) {
    this.status.value = status;
    const source = status["source"] ?? {};
    this.samples.add({
      at: Date.parse(status["updated"]) / 1000 || Date.now() / 1000,
      lag: status["lagSeconds"] ?? null,
      readLag: status["readLagSeconds"] ?? null,
      rate: status["rowsPerSecond"] ?? null,
      held: source["heldBytes"] ?? null,
      waiting: source["waitingBytes"] ?? null,
    });
  }

  /** Keeps where the copy of a table was seen first, from which its speed follows. @param {TableRow} row */
  #watchCopy(row) {
    const percent = row.snapshotPercent;
    if (row.state !== "SNAPSHOTTING" || percent == null) this.copies.delete(row.id);
    else {
      const first = this.copies.get(row.id);
      if (!first || percent < first.percent) this.copies.set(row.id, { at: Date.now(), percent });
    }
  }

  /** In how many seconds a copy ends; null while that is not known. @param {TableRow} row */
  secondsLeft(row) {
    const first = this.copies.get(row.id);
    const percent = row.snapshotPercent;
    if (!first || percent == null || percent <= first.percent) return null;
    return (((Date.now() - first.at) / 1000) * (100 - percent)) / (percent - first.percent);
  }
}

/**
 * Null where there is no state yet: no run has written one.
 * @template T
 * @param {Promise<T>} asked
 * @returns {Promise<T | null>}
 */
async function unlessNone(asked) {
  try {
    return await asked;
  } catch (error) {
    if ([404, 409].includes(/** @type {{status?: number}} */ (error).status ?? 0)) return null;
    throw error;
  }
}
