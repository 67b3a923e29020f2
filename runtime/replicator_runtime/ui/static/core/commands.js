// @ts-check
/** Every action in two other forms: the command line's, and a request by curl. */

/**
 * A word as a shell takes it.
 * @param {string} text
 */
export function quoted(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * A command of the command line.
 * @param {...string} words
 */
export function cli(...words) {
  return ["replicator", ...words].map(quoted).join(" ");
}

/**
 * A request by curl, with the token in a variable of the shell.
 * @param {string} method
 * @param {string} url
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 */
export function curl(method, url, body, headers = {}) {
  const lines = [`curl -X ${method} ${quoted(window.location.origin + url)}`, '-H "Authorization: Bearer $REPLICATOR_TOKEN"'];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/**
 * Puts a text on the clipboard.
 * @param {string} text
 * @returns {Promise<boolean>} False when the browser refuses.
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "off-screen";
  field.setAttribute("aria-hidden", "true");
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

/**
 * Saves a text as a file.
 * @param {string} name
 * @param {string} text
 * @param {string} [kind]
 */
export function download(name, text, kind = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
