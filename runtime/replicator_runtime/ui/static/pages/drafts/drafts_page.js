// @ts-check
import { html, useState } from "../../core/html.js";
import { all, context, request } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { ago, counted, time } from "../../core/format.js";
import { download } from "../../core/commands.js";
import { go, here } from "../../core/router.js";
import { may } from "../../core/session.js";
import { DataTable } from "../../components/table.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { Empty, Loading } from "../../components/empty.js";
import { CopyAs } from "../../components/copy_button.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { say, sayProblem } from "../../components/toast.js";
import { pluginOf } from "../create/config_edits.js";
import { ImportDialog } from "./import_dialog.js";
import { NameDialog } from "./name_dialog.js";

/**
 * The drafts of a namespace.
 * @param {{values: Record<string, string>}} props
 */
export default function DraftsPage({ values }) {
  const { namespace } = values;
  const list = useResource((signal) => all(context(namespace, "drafts"), { signal }), [namespace]);
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState(/** @type {{kind: "import" | "delete" | "duplicate", draft?: any} | null} */ (null));
  const close = () => setOpen(null);
  const create = async (/** @type {string} */ name, /** @type {any} */ config, /** @type {string} */ label) => {
    await request("PUT", context(namespace, "drafts", name), { body: { config: { ...config, name }, label }, create: true });
    close();
    list.reload();
    say(`Draft ${name} is created`);
  };
  const take = async (/** @type {string} */ name, /** @type {any} */ config, /** @type {string} */ label) => {
    await create(name, config, label);
    go(here("create", name, "basics"));
  };
  const copies = (/** @type {string} */ name, /** @type {string} */ label) => html`<${CopyAs} method="PUT" url=${context(namespace, "drafts", name)} body=${{ config: { ...open?.draft?.config, name }, label }} headers=${{ "If-None-Match": "*" }} />`;
  const remove = async (/** @type {any} */ draft) => {
    await request("DELETE", context(namespace, "drafts", draft.name)).then(() => say(`Draft ${draft.name} is deleted`), sayProblem);
    close();
    list.reload();
  };
  const shown = (list.data ?? []).filter((one) => `${one.name} ${one.label}`.toLowerCase().includes(search.toLowerCase()));
  const writes = may("operator");
  const head = html`<div class="page-head"><h1>Drafts</h1><${CopyAs} method="GET" url=${context(namespace, "drafts")} />
    ${writes && html`<span class="actions"><button type="button" onClick=${() => setOpen({ kind: "import" })}><${Icon} name="upload" />Import</button><a class="button primary" href=${here("create")}><${Icon} name="plus" />Create a pipeline</a></span>`}</div>`;
  const dialogs = html`
    ${open?.kind === "import" && html`<${ImportDialog} namespace=${namespace} onClose=${close} onImport=${take} />`}
    ${open?.kind === "duplicate" && html`<${NameDialog} title=${`Duplicate ${open.draft.name}`} suggested=${`${open.draft.name}-copy`} withLabel=${true} label=${open.draft.label ?? ""} copies=${copies}
      onClose=${close} onName=${(/** @type {string} */ name, /** @type {string} */ label) => create(name, open.draft.config, label)} />`}
    ${open?.kind === "delete" && html`<${ConfirmDialog} title=${`Delete the draft ${open.draft.name}?`} effect="The draft is gone then. Pipelines that were deployed from it stay as they are." action="Delete draft" onClose=${close} onConfirm=${() => remove(open.draft)}>
      <${CopyAs} method="DELETE" url=${context(namespace, "drafts", open.draft.name)} /></${ConfirmDialog}>`}`;
  if (list.problem) return html`${head}<${ProblemBox} problem=${list.problem} retry=${list.reload} />`;
  if (!list.data) return html`${head}<${Loading} />`;
  if (list.data.length === 0) {
    return html`${head}<${Empty} title="No drafts" action=${writes && html`<a class="button primary" href=${here("create")}>Create a pipeline</a>`}><p>A draft is a pipeline that is being written. It is saved as you type, and you can go on with it later.</p></${Empty}>${dialogs}`;
  }
  return html`${head}
    <div class="row toolbar"><label class="search"><${Icon} name="search" /><span class="off-screen">Search drafts</span><input type="search" value=${search} placeholder="Search" onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} /></label>
      <span class="muted" role="status">${counted(shown.length, "draft")}</span></div>
    <${DataTable} label="Drafts" columns=${columns(setOpen, writes)} rows=${shown} rowKey=${(/** @type {any} */ one) => one.name} rowHeight=${40} empty=${html`<p class="padded muted">No draft fits.</p>`} />
    ${dialogs}`;
}

/** @param {(open: any) => void} setOpen @param {boolean} writes */
function columns(setOpen, writes) {
  const stage = (/** @type {any} */ draft, /** @type {"cdcSource" | "cdcTarget"} */ type) => pluginOf(draft.config, type)?.name ?? "–";
  return [
    { key: "name", label: "Name", width: "minmax(120px, 2fr)", cell: (/** @type {any} */ one) => html`<a href=${here("create", one.name)}>${one.name}</a>` },
    { key: "label", label: "Label", width: "minmax(100px, 2fr)", cell: (/** @type {any} */ one) => html`<span title=${one.label || one.config.description}>${one.label || one.config.description || "–"}</span>` },
    { key: "source", label: "Source", width: "92px", cell: (/** @type {any} */ one) => stage(one, "cdcSource") },
    { key: "target", label: "Target", width: "92px", cell: (/** @type {any} */ one) => stage(one, "cdcTarget") },
    { key: "updated", label: "Changed", width: "110px", cell: (/** @type {any} */ one) => html`<time dateTime=${one.updated} title=${time(one.updated)}>${ago(one.updated)}</time>` },
    {
      key: "actions",
      label: html`<span class="off-screen">Actions</span>`,
      width: "236px",
      cell: (/** @type {any} */ one) => html`<span class="row nowrap tight">
        <button type="button" class="quiet small" aria-label=${`Export ${one.name}`} onClick=${() => download(`${one.name}.json`, `${JSON.stringify(one.config, null, 2)}\n`)}>Export</button>
        ${writes && html`<button type="button" class="quiet small" aria-label=${`Duplicate ${one.name}`} onClick=${() => setOpen({ kind: "duplicate", draft: one })}>Duplicate</button>
        <button type="button" class="quiet small" aria-label=${`Delete ${one.name}`} onClick=${() => setOpen({ kind: "delete", draft: one })}>Delete</button>`}</span>`,
    },
  ];
}
