// @ts-check
import { html, useState } from "../../core/html.js";
import { all, context, request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { ago, time } from "../../core/format.js";
import { here } from "../../core/router.js";
import { may } from "../../core/session.js";
import { CopyAs } from "../../components/copy_button.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { Empty, Loading } from "../../components/empty.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { say, sayProblem } from "../../components/toast.js";
import { ConnectionEditor } from "./connection_editor.js";

/**
 * Saved connections: settings of sources and targets that several pipelines use.
 * @param {{values: Record<string, string>, query: URLSearchParams}} props
 */
export default function ConnectionsPage({ values }) {
  const { namespace, name } = values;
  if (name) return html`<${ConnectionEditor} key=${`${namespace}/${name}`} namespace=${namespace} name=${name === "new" ? "" : name} />`;
  return html`<${ListPage} namespace=${namespace} />`;
}

/** @param {{namespace: string}} props */
function ListPage({ namespace }) {
  const list = useResource((signal) => all(context(namespace, "connections"), { signal }), [namespace]);
  const [leaving, setLeaving] = useState(/** @type {any} */ (null));
  const remove = async () => {
    await request("DELETE", context(namespace, "connections", leaving.name)).then(() => say(`Connection ${leaving.name} is deleted`), sayProblem);
    setLeaving(null);
    list.reload();
  };
  const add = may("operator") && html`<a class="button primary" href=${here("connections", "new")}><${Icon} name="plus" />New connection</a>`;
  const head = html`<div class="page-head"><h1>Connections</h1>${add}</div>`;
  if (list.problem) return html`${head}<${ProblemBox} problem=${list.problem} retry=${list.reload} />`;
  if (!list.data) return html`${head}<${Loading} />`;
  if (list.data.length === 0) return html`${head}<${Empty} title="No connections" action=${add}><p>A connection keeps the settings of a source or a target, so that several pipelines use the same. Secrets in it are references.</p></${Empty}>`;
  return html`${head}
    <div class="panel tight scroll-x"><table class="plain"><thead><tr><th>Name</th><th>Plugin</th><th>Kind</th><th>Changed</th><th><span class="off-screen">Actions</span></th></tr></thead><tbody>
      ${list.data.map(
        (one) => html`<tr key=${one.name}><td><a href=${here("connections", one.name)}>${one.name}</a></td><td>${one.plugin?.name}</td><td>${one.plugin?.type === "cdcSource" ? "source" : "target"}</td>
          <td><time dateTime=${one.updated} title=${time(one.updated)}>${ago(one.updated)}</time></td>
          <td class="end">${may("operator") && html`<button type="button" class="quiet small" aria-label=${`Delete ${one.name}`} onClick=${() => setLeaving(one)}>Delete</button>`}</td></tr>`,
      )}</tbody></table></div>
    ${leaving && html`<${ConfirmDialog} title=${`Delete the connection ${leaving.name}?`} effect="Pipelines that were written with it keep their settings." action="Delete connection" onClose=${() => setLeaving(null)} onConfirm=${remove}>
      <${CopyAs} method="DELETE" url=${context(namespace, "connections", leaving.name)} /></${ConfirmDialog}>`}`;
}
