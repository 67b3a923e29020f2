// @ts-check
/** The rows of the start page; each follows its pipeline alone. */
import { html } from "../../core/html.js";
import { here } from "../../core/router.js";
import { bytes, duration, number, rate } from "../../core/format.js";
import { Icon } from "../../components/icons.js";
import { withCode } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";
import { Badge, pipelineState } from "../../live/states.js";
import { menuItems } from "../../actions/ask.js";
import { suiting } from "../../actions/suiting.js";
import { openMenu } from "../../parts/menu.js";

/** @typedef {import("../../live/shapes.js").PipelineItem} PipelineItem */
/** @typedef {import("../../live/fleet_live.js").FleetLive} FleetLive */

/** @param {{ live: FleetLive, names: string[], namespace: string }} props */
export function FleetTable({ live, names, namespace }) {
  return html`<div class="table-box"><table class="fleet-table">
    <caption class="off-screen">Pipelines, those first that need you</caption>
    <thead><tr>
      <th scope="col">Pipeline</th><th scope="col">State</th><th scope="col" class="numeric">Lag</th>
      <th scope="col" class="numeric">Rows/s</th><th scope="col" class="numeric">Log held</th>
      <th scope="col">Verified</th><th scope="col">Needs you, last error</th>
      <th scope="col"><span class="off-screen">Actions</span></th>
    </tr></thead>
    <tbody>${names.map((name) => html`<${Row} key=${name} live=${live} name=${name} namespace=${namespace} />`)}</tbody>
  </table></div>`;
}

/** @param {{ live: FleetLive, name: string, namespace: string }} props */
function Row({ live, name, namespace }) {
  const item = live.rows.of(name).value;
  if (!item) return null;
  const state = pipelineState(item);
  const target = { namespace, name };
  return html`<tr class=${item.needsYou?.length ? "needs" : ""}>
    <th scope="row"><a href=${here("pipelines", name)}>${name}</a><${Tables} tables=${item.tables} /></th>
    <td data-label="State"><${Badge} state=${state} title=${item.exitCode ? `ended with exit code ${item.exitCode}` : undefined} /></td>
    <td data-label="Lag" class="numeric"><${Lag} item=${item} /></td>
    <td data-label="Rows/s" class="numeric">${rate(item.rowsPerSecond).replace("/s", "")}</td>
    <td data-label="Log held" class="numeric">${bytes(item.heldBytes)}</td>
    <td data-label="Verified"><${Ago} at=${item.verifiedAt} /></td>
    <td data-label="Needs you" class="why"><${Why} item=${item} namespace=${namespace} /></td>
    <td class="cell-menu"><button type="button" class="quiet small" aria-haspopup="menu" aria-label=${`Actions for ${name}`}
      onClick=${(/** @type {MouseEvent} */ event) =>
        openMenu(menuItems(target, suiting(item)), /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect(), `Actions for ${name}`)}
    ><${Icon} name="more" /></button></td>
  </tr>`;
}

/** @param {{ tables?: Record<string, number> }} props */
function Tables({ tables = {} }) {
  const all = Object.values(tables).reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  const other = Object.entries(tables).filter(([state, count]) => state !== "REPLICATING" && count > 0);
  const said = other.map(([state, count]) => `${number(count)} ${state.toLowerCase()}`).join(", ");
  return html`<span class="sub">${number(all)} ${all === 1 ? "table" : "tables"}${said && `: ${said}`}</span>`;
}

/** Never 100 % when a minute was broken. @param {number} ratio */
const percent = (ratio) => `${Math.floor(ratio * 1000) / 10} %`;

/** The lag of the table that is latest, and whether the objective holds. @param {{ item: PipelineItem }} props */
export function Lag({ item }) {
  const ratio = item.sloRatio;
  return html`<span class=${item.sloBroken ? "lag broken" : "lag"} title="The largest lag of its tables">
    ${item.sloBroken && html`<${Icon} name="warning" label="objective broken" /> `}${duration(item.worstLagSeconds)}
    ${ratio != null && html`<span class="sub" title=${item.sloBroken ? "The objective is broken" : "The objective is kept"}>fresh ${percent(ratio)}</span>`}
  </span>`;
}

/** @param {{ item: PipelineItem, namespace: string }} props */
function Why({ item }) {
  const error = item.lastError;
  const needs = (item.needsYou ?? []).filter((one) => one.text !== error?.message);
  if (!error && needs.length === 0) return html`<span class="muted">nothing</span>`;
  return html`
    ${needs.length > 0 && html`<ul class="needs-list">${needs.map((one) => html`<li>${withCode(one.text)}</li>`)}</ul>`}
    ${error && html`<p class="error-line"><code>${error.code || "error"}</code> ${withCode(error.message)}</p>`}
    ${error?.hint && html`<p class="hint">Next: ${withCode(error.hint)}</p>`}`;
}
