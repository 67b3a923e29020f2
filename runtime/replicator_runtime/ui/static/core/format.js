// @ts-check
/** Numbers and times as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" });

/** @param {number | null | undefined} value */
export function number(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let left = value;
  let unit = 0;
  while (Math.abs(left) >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${short.format(left)} ${units[unit]}`;
}

/** @param {number | null | undefined} value Rows a second. */
export function rate(value) {
  return value === null || value === undefined ? "–" : `${short.format(value)}/s`;
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${short.format(seconds)} s`;
  if (seconds < 120) return `${whole.format(seconds)} s`;
  if (seconds < 7200) return `${whole.format(seconds / 60)} min`;
  if (seconds < 172800) return `${short.format(seconds / 3600)} h`;
  return `${short.format(seconds / 86400)} d`;
}

/**
 * How long ago.
 * @param {string | null | undefined} iso
 * @param {number} [now] Milliseconds since 1970.
 */
export function ago(iso, now = Date.now()) {
  if (!iso) return "never";
  const seconds = (now - Date.parse(iso)) / 1000;
  return seconds < 2 ? "now" : `${duration(Math.max(0, seconds))} ago`;
}

/** @param {string | null | undefined} iso */
export function time(iso) {
  return iso ? `${moment.format(new Date(iso))} UTC` : "";
}

/**
 * A count with its noun.
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function counted(count, one, many = `${one}s`) {
  return `${whole.format(count)} ${count === 1 ? one : many}`;
}
