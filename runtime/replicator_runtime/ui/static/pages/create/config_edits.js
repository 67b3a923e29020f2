// @ts-check
/** Changes of a pipeline's config. Each gives a new object; what a form does not know stays as it is. */

/** @typedef {import("./draft_store.js").Config} Config */
/** @typedef {"cdcSource" | "cdcTarget"} StageType */
/** @typedef {{name: string, type: string, properties: Record<string, any>}} PluginReference */

const SPELLINGS = { cdcSource: ["cdcSource", "cdc-origin"], cdcTarget: ["cdcTarget", "cdc-destination"] };
const STAGE_NAMES = { cdcSource: "source", cdcTarget: "target" };

/** @returns {Config} */
export function emptyConfig() {
  return { description: "", stages: [], connections: [], tables: [] };
}

/**
 * The plugin of the source or of the target; null when none is chosen.
 * @param {Config} config
 * @param {StageType} type
 * @returns {PluginReference | null}
 */
export function pluginOf(config, type) {
  const stage = stages(config).find((one) => SPELLINGS[type].includes(one?.plugin?.type));
  return stage ? { ...stage.plugin, properties: stage.plugin.properties ?? {} } : null;
}

/**
 * Where a stage is in `stages`; -1 when it is not.
 * @param {Config} config
 * @param {StageType} type
 */
export function stageIndex(config, type) {
  return stages(config).findIndex((one) => SPELLINGS[type].includes(one?.plugin?.type));
}

/** @param {Config} config @returns {any[]} */
function stages(config) {
  return Array.isArray(config.stages) ? config.stages : [];
}

/**
 * Chooses a plugin and its settings; the connection between the stages follows.
 * @param {Config} config
 * @param {StageType} type
 * @param {{name: string, properties: Record<string, any>}} plugin
 * @returns {Config}
 */
export function withPlugin(config, type, plugin) {
  const at = stageIndex(config, type);
  const before = at < 0 ? null : stages(config)[at];
  const stage = { ...(before ?? { name: freeName(config, STAGE_NAMES[type]) }), plugin: { ...(before?.plugin ?? { type }), name: plugin.name, properties: plugin.properties } };
  if (before && before.plugin?.name !== plugin.name) delete stage.plugin.artifact;
  const next = at < 0 ? (type === "cdcSource" ? [stage, ...stages(config)] : [...stages(config), stage]) : stages(config).map((one, index) => (index === at ? stage : one));
  return connected({ ...config, stages: next });
}

/** @param {Config} config @param {string} wanted */
function freeName(config, wanted) {
  const taken = new Set(stages(config).map((one) => one?.name));
  return taken.has(wanted) ? `${wanted}-2` : wanted;
}

/** @param {Config} config @returns {Config} */
function connected(config) {
  const source = stages(config)[stageIndex(config, "cdcSource")];
  const target = stages(config)[stageIndex(config, "cdcTarget")];
  return source && target ? { ...config, connections: [{ from: source.name, to: target.name }] } : config;
}

/**
 * Sets a value below a dotted path; undefined removes it, and objects that are empty then.
 * @param {Config} config
 * @param {string} path
 * @param {any} value
 * @returns {Config}
 */
export function withValue(config, path, value) {
  const [key, ...rest] = path.split(".");
  const inner = rest.length ? withValue(isObject(config[key]) ? config[key] : {}, rest.join("."), value) : value;
  const { [key]: before, ...others } = config;
  return inner === undefined || (rest.length && isObject(inner) && Object.keys(inner).length === 0) ? others : { ...config, [key]: inner };
}

/**
 * The value at a dotted path.
 * @param {Config} config
 * @param {string} path
 */
export function valueAt(config, path) {
  return path.split(".").reduce((/** @type {any} */ found, key) => (isObject(found) ? found[key] : undefined), config);
}

/** @param {any} value @returns {value is Record<string, any>} */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Names that a pipeline may have. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
export const NAME_RULE = "A name begins with a letter or digit and holds letters, digits, _, . and -, 63 at most.";
