// @ts-check
/** All that is known of one table, in a dialog. */
import { html } from "../../core/html.js";
import { bytes, duration, number, rate, time } from "../../core/format.js";
import { Dialog } from "../../components/dialog.js";
import { withCode } from "../../components/problem.js";
import { Ago } from "../../live/clock.js";
import { Badge, tableState } from "../../live/states.js";

/** @typedef {import("../../live/shapes.js").TableRow} TableRow */

/** @param {{ live: import("../../live/pipeline_live.js").PipelineLive, name: string, onClose: () => void }} props */
export function TableDetails({ live, name, onClose }) {
  const row = live.tables.of(name).value;
  if (!row) return null;
  const left = live.secondsLeft(row);
  return html`<${Dialog} title=${row.name} onClose=${onClose}>
    ${row.error && html`<div class="note bad"><div><p><code>${row.error.code || "error"}</code> ${withCode(row.error.message)}</p>
      ${row.error.hint && html`<p>Next: ${withCode(row.error.hint)}</p>`}</div></div>`}
    <dl class="facts">
      <dt>State</dt><dd><${Badge} state=${tableState(row.state)} /></dd>
      <dt>At the source</dt><dd><code>${[row.database, row.schema, row.table].filter(Boolean).join(".")}</code></dd>
      ${row.snapshotPercent != null && html`<dt>Snapshot</dt><dd>${Math.floor(row.snapshotPercent)} %${left == null ? "" : `, ${duration(left)} left`}</dd>`}
      <dt>Lag</dt><dd>${duration(row.lagSeconds)}</dd>
      <dt>Rows</dt><dd>${number(row.rows)} (${rate(row.rowsPerSecond)})</dd>
      ${row.copied != null && html`<dt>Copied</dt><dd>${number(row.copied)} rows</dd>`}
      ${row.inserts != null && html`<dt>Changes</dt><dd>${number(row.inserts)} inserts, ${number(row.updates)} updates, ${number(row.deletes)} deletes</dd>`}
      <${Pause} pause=${row.pause} />
      ${row.waitsFor && html`<dt>Waits for</dt><dd>${row.waitsFor}</dd>`}
      ${row.failingSince && html`<dt>Failing since</dt><dd><${Ago} at=${row.failingSince} /></dd>`}
      ${row.copyAgainAt && html`<dt>Copied again</dt><dd>${time(row.copyAgainAt)}, unless it works before</dd>`}
      ${row.rowsPutAside ? html`<dt>Put aside</dt><dd>${number(row.rowsPutAside)} rows</dd>` : null}
      <dt>Verified</dt><dd><${Ago} at=${row.verifiedAt} />${row.verifyResult && `: ${row.verifyResult}`}</dd>
      ${Object.entries(row.maintenance ?? {}).map(([task, done]) => html`<dt>${task}</dt><dd><${Ago} at=${done.doneAt} />${done.error && `: ${done.error}`}</dd>`)}
      ${row.lastError && html`<dt>Repaired error</dt><dd><code>${row.lastError.code}</code> ${withCode(row.lastError.message)} <${Ago} at=${row.lastError.at} /></dd>`}
    </dl>
  </${Dialog}>`;
}

/** @param {{ pause: any }} props */
function Pause({ pause }) {
  if (!pause) return null;
  const kept = `${number(pause.laneRows)} changes (${bytes(pause.laneBytes)}) are kept for it${pause.inLog ? " in the source's log" : " in its lane"}`;
  return html`<dt>${pause.failed ? "Its lane" : "Paused"}</dt><dd>since <${Ago} at=${pause.since} />: ${pause.copiedAgain ? "it is copied again when it is resumed" : kept}${pause.resuming ? "; they are given to the target" : ""}
    ${pause.asks && html`<p>Waits for a decision: ${withCode(pause.asks)}</p>`}</dd>`;
}
