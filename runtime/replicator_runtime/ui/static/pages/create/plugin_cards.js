// @ts-check
import { html, useId } from "../../core/html.js";

/**
 * Plugins to choose one of.
 * @param {{items: import("../plugins/plugin_list.js").PluginItem[], chosen: string | undefined, label: string, onChoose: (name: string) => void}} props
 */
export function PluginCards({ items, chosen, label, onChoose }) {
  const id = useId();
  return html`<fieldset class="plugin-cards">
    <legend class="off-screen">${label}</legend>
    ${[...items].sort(order).map(
      (item) => html`<label key=${item.name} class=${item.name === chosen ? "card picked" : "card"}>
        <input type="radio" name=${id} value=${item.name} checked=${item.name === chosen} onChange=${() => onChoose(item.name)} />
        <span class="card-text"><strong>${NAMES[item.name] ?? item.name}</strong><small>${item.title}</small></span>
      </label>`,
    )}
  </fieldset>`;
}

/** @param {{name: string}} one @param {{name: string}} other */
function order(one, other) {
  const known = Object.keys(NAMES);
  const place = (/** @type {string} */ name) => (known.includes(name) ? known.indexOf(name) : known.length);
  return place(one.name) - place(other.name) || one.name.localeCompare(other.name);
}

/** Product names of the plugins that come with the replicator. @type {Record<string, string>} */
const NAMES = { postgres: "PostgreSQL", mysql: "MySQL and MariaDB", sqlite: "SQLite", kafka: "Apache Kafka", archive: "Change archive", delta: "Delta Lake", iceberg: "Apache Iceberg", bigquery: "BigQuery" };
