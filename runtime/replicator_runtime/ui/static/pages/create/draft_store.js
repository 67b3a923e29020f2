// @ts-check
/** A draft as it is written: kept in the page, saved by itself shortly after each change. */
import { signal } from "../../core/html.js";
import { ApiProblem, context, request } from "../../core/api.js";
import { asProblem } from "../../core/resource.js";
import { emptyConfig } from "./config_edits.js";

/** @typedef {Record<string, any>} Config */
/** @typedef {"saved" | "unsaved" | "saving" | "changed-elsewhere" | "failed" | "new"} Saved */

const AFTER = 600;

/** One draft. Its signals are read by components. */
export class DraftStore {
  /**
   * @param {string} namespace
   * @param {string} name Empty for a draft that has no name yet.
   */
  constructor(namespace, name) {
    this.namespace = namespace;
    this.name = name;
    /** @type {{value: Config}} */
    this.config = signal(emptyConfig());
    /** @type {{value: string}} */
    this.label = signal("");
    /** @type {{value: Saved}} */
    this.saved = signal(/** @type {Saved} */ ("new"));
    /** @type {{value: ApiProblem | null}} */
    this.problem = signal(/** @type {ApiProblem | null} */ (null));
    /** @type {{value: string | null}} */
    this.updated = signal(/** @type {string | null} */ (null));
    this.etag = "";
    this.timer = 0;
    /** @type {Promise<void>} */
    this.turn = Promise.resolve();
  }

  get url() {
    return context(this.namespace, "drafts", this.name);
  }

  /** Reads it from the service. */
  async load() {
    const { data, etag } = await request("GET", this.url);
    this.take(data, etag);
    this.config.value = data.config;
    this.label.value = data.label ?? "";
    this.saved.value = "saved";
    this.problem.value = null;
  }

  /** @param {import("../../core/shapes.js").Draft} data @param {string} etag */
  take(data, etag) {
    this.etag = etag;
    this.updated.value = data.updated;
  }

  /**
   * Changes the config; it is saved soon.
   * @param {Config} config
   */
  edit(config) {
    this.config.value = config;
    this.touch();
  }

  /** @param {string} label */
  setLabel(label) {
    this.label.value = label;
    this.touch();
  }

  touch() {
    if (!this.name || this.saved.value === "changed-elsewhere") return;
    this.saved.value = "unsaved";
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.save().catch(() => {}), AFTER);
  }

  /** Whether something would be lost now. */
  get pending() {
    return ["unsaved", "saving", "failed"].includes(this.saved.value);
  }

  /**
   * Saves what is not saved yet, and waits for it.
   * @returns {Promise<void>}
   */
  save() {
    clearTimeout(this.timer);
    this.turn = this.turn.catch(() => {}).then(() => (this.saved.value === "saved" ? undefined : this.put()));
    return this.turn;
  }

  async put() {
    const [config, label] = [this.config.value, this.label.value];
    this.saved.value = "saving";
    try {
      const how = this.etag ? { etag: this.etag } : { create: true };
      const { data, etag } = await request("PUT", this.url, { body: { config, label }, ...how });
      this.take(data, etag);
      this.problem.value = null;
      this.saved.value = this.config.value === config && this.label.value === label ? "saved" : "unsaved";
    } catch (error) {
      const problem = asProblem(error);
      this.saved.value = problem.status === 412 ? "changed-elsewhere" : "failed";
      this.problem.value = problem;
      throw problem;
    }
    if (this.saved.value === "unsaved") this.touch();
  }

  /** Takes what was written elsewhere instead of what is here. */
  async takeTheirs() {
    await this.load();
  }

  /** Writes what is here over what was written elsewhere. */
  async keepMine() {
    try {
      const { etag } = await request("GET", this.url);
      this.etag = etag;
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.status !== 404) throw error;
      this.etag = "";
    }
    this.saved.value = "unsaved";
    await this.save();
  }

  /**
   * Gives the draft its name, and creates it.
   * @param {string} name
   */
  async create(name) {
    this.name = name;
    const { name: before, ...rest } = this.config.value;
    this.config.value = { name, ...rest };
    this.saved.value = "unsaved";
    try {
      await this.save();
    } catch (error) {
      this.name = "";
      this.saved.value = "new";
      throw error;
    }
  }
}
