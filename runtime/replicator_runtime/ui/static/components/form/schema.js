// @ts-check
/** Reads JSON Schema as pydantic writes it: what kind of field a setting needs. */

/**
 * @typedef {object} Schema
 * @property {string} [type]
 * @property {any} [default]
 * @property {any} [const]
 * @property {any[]} [enum]
 * @property {Schema[]} [anyOf]
 * @property {Schema[]} [oneOf]
 * @property {Schema[]} [allOf]
 * @property {string} [$ref]
 * @property {Record<string, Schema>} [$defs]
 * @property {Record<string, Schema>} [properties]
 * @property {string[]} [required]
 * @property {Schema} [items]
 * @property {Schema | boolean} [additionalProperties]
 * @property {string} [format]
 * @property {string} [pattern]
 * @property {string} [rule] What `pattern` asks for, for people.
 * @property {boolean} [writeOnly]
 * @property {string} [title]
 * @property {string} [label] Ours: what the field is called.
 * @property {Record<string, string>} [labels] Ours: what the values of `enum` are called.
 * @property {string} [description]
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [exclusiveMinimum]
 * @property {number} [exclusiveMaximum]
 * @property {number} [minLength]
 * @property {number} [maxLength]
 */

/** @typedef {"secret" | "choice" | "boolean" | "integer" | "number" | "text" | "path" | "list" | "map" | "object" | "json"} Kind */

/**
 * @typedef {object} Setting
 * @property {string} key
 * @property {string} label
 * @property {Schema} schema Resolved.
 * @property {Kind} kind
 * @property {boolean} required
 * @property {any[]} choices
 * @property {string} about
 */

/**
 * A schema with its reference followed and null taken out of its alternatives.
 * @param {Schema} schema
 * @param {Record<string, Schema>} definitions
 * @returns {Schema}
 */
export function resolved(schema, definitions) {
  let found = schema;
  for (let step = 0; step < 8; step += 1) {
    if (found.$ref) {
      const { $ref, ...rest } = found;
      found = { ...definitions[$ref.replace("#/$defs/", "")], ...rest };
    } else if (found.allOf?.length === 1) {
      const { allOf, ...rest } = found;
      found = { ...allOf[0], ...rest };
    } else {
      const alternatives = found.anyOf ?? found.oneOf;
      const others = alternatives?.filter((one) => one.type !== "null");
      if (!alternatives || !others || others.length !== 1) return found;
      const { anyOf, oneOf, ...rest } = found;
      found = { ...others[0], ...rest };
    }
  }
  return found;
}

/**
 * @param {Schema} schema Resolved.
 * @param {Record<string, Schema>} definitions
 * @returns {Kind}
 */
export function kindOf(schema, definitions) {
  if (schema.writeOnly || schema.format === "password") return "secret";
  if (schema.enum || schema.const !== undefined) return "choice";
  if (schema.type === "boolean") return "boolean";
  if (schema.type === "integer" || schema.type === "number") return schema.type;
  if (schema.type === "string") return schema.format === "path" ? "path" : "text";
  if (schema.type === "array") return schema.items && isText(resolved(schema.items, definitions)) ? "list" : "json";
  if (schema.type === "object") {
    if (schema.properties) return "object";
    if (typeof schema.additionalProperties === "object" && isScalar(resolved(schema.additionalProperties, definitions))) return "map";
  }
  return "json";
}

/** @param {Schema} schema */
function isText(schema) {
  return schema.type === "string";
}

/** @param {Schema} schema */
function isScalar(schema) {
  const alternatives = schema.anyOf ?? [schema];
  return alternatives.every((one) => ["string", "integer", "number", "boolean", "null"].includes(one.type ?? ""));
}

/**
 * The settings of an object.
 * @param {Schema} schema
 * @param {Record<string, Schema>} [definitions]
 * @returns {Setting[]}
 */
export function settingsOf(schema, definitions = schema.$defs ?? {}) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([key, one]) => {
    const found = resolved(one, definitions);
    return {
      key,
      label: found.label ?? humanized(key),
      schema: found,
      kind: kindOf(found, definitions),
      required: required.has(key),
      choices: found.enum ?? (found.const === undefined ? [] : [found.const]),
      about: one.description ?? found.description ?? "",
    };
  });
}

/**
 * Settings that most people fill in, and the others.
 * @param {Setting[]} settings
 * @returns {[Setting[], Setting[]]}
 */
export function divided(settings) {
  const needed = (/** @type {Setting} */ one) => one.required || one.kind === "secret";
  const last = settings.findLastIndex(needed);
  const first = settings.filter((one, index) => needed(one) || (last < 8 && index < last));
  return [first, settings.filter((one) => !first.includes(one))];
}

const WORDS = new Map([
  ["ssl", "TLS"], ["url", "URL"], ["uri", "URI"], ["id", "ID"], ["api", "API"], ["json", "JSON"], ["wal", "WAL"], ["ms", "(ms)"], ["cert", "certificate"], ["ddl", "DDL"], ["dml", "DML"], ["slo", "objective"],
]);

/**
 * `bootstrapServers` as "Bootstrap servers".
 * @param {string} key
 */
export function humanized(key) {
  const words = key.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/[._-]+/g, " ").toLowerCase().split(" ");
  const text = words.map((word) => WORDS.get(word) ?? word).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * What is wrong with a value before the service is asked; empty when nothing is.
 * @param {Setting} setting
 * @param {any} value
 */
export function wrong(setting, value) {
  if (value === undefined || value === null || value === "") return setting.required ? "This is needed." : "";
  if (typeof value === "string" && value.includes("${")) return "";
  const { schema, kind } = setting;
  if (kind === "integer" || kind === "number") return wrongNumber(schema, value, kind === "integer");
  if (typeof value !== "string") return "";
  if (schema.maxLength !== undefined && value.length > schema.maxLength) return `At most ${schema.maxLength} characters.`;
  if (schema.pattern && !matches(schema.pattern, value)) return schema.rule ? `It ${schema.rule}.` : `It must match ${schema.pattern}.`;
  return "";
}

/**
 * @param {Schema} schema
 * @param {any} value
 * @param {boolean} whole
 */
function wrongNumber(schema, value, whole) {
  if (typeof value !== "number") return "This must be a number.";
  if (whole && !Number.isInteger(value)) return "This must be a whole number.";
  if (schema.minimum !== undefined && value < schema.minimum) return `At least ${schema.minimum}.`;
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) return `More than ${schema.exclusiveMinimum}.`;
  if (schema.maximum !== undefined && value > schema.maximum) return `At most ${schema.maximum}.`;
  if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) return `Less than ${schema.exclusiveMaximum}.`;
  return "";
}

/**
 * @param {string} pattern Python's; one that JavaScript cannot read is left to the service.
 * @param {string} value
 */
function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}
