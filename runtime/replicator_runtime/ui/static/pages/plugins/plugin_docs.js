// @ts-check
import { html } from "../../core/html.js";
import { Dialog } from "../../components/dialog.js";

/**
 * Documentation of a plugin: paragraphs, headings and code of Markdown; anything else is shown as it is written.
 * @param {{text: string}} props
 */
export function Documentation({ text }) {
  return html`<div class="documentation">${blocks(text).map((block) => shown(block))}</div>`;
}

/** @param {string} text */
function blocks(text) {
  return text.split(/(```[\s\S]*?```)/).flatMap((part) => (part.startsWith("```") ? [part] : part.split(/\n{2,}/))).filter((part) => part.trim());
}

/** @param {string} block */
function shown(block) {
  if (block.startsWith("```")) return html`<pre tabindex="0">${block.replace(/^```\w*\n?|\n?```$/g, "")}</pre>`;
  if (block.startsWith("#")) return html`<h3>${inline(block.replace(/^#+\s*/, ""))}</h3>`;
  if (/^\s*\|/.test(block)) return html`<pre class="wrap" tabindex="0">${block}</pre>`;
  if (/^\s*[-*] /.test(block)) return html`<ul>${block.split(/\n(?=\s*[-*] )/).map((line) => html`<li>${inline(line.replace(/^\s*[-*] /, ""))}</li>`)}</ul>`;
  return html`<p>${inline(block)}</p>`;
}

/** @param {string} text */
function inline(text) {
  return text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .split(/(`[^`]+`|\*\*[^*]+\*\*)/)
    .map((part) => (part.startsWith("`") ? html`<code>${part.slice(1, -1)}</code>` : part.startsWith("**") ? html`<strong>${part.slice(2, -2)}</strong>` : part));
}

/**
 * @param {{plugin: import("./plugin_list.js").PluginDetail, onClose: () => void}} props
 */
export function DocumentationDialog({ plugin, onClose }) {
  return html`<${Dialog} title=${plugin.title} onClose=${onClose} wide=${true}><${Documentation} text=${plugin.documentation} /></${Dialog}>`;
}
