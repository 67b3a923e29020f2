// @ts-check
import { html, useState } from "../../core/html.js";
import { Icon } from "../../components/icons.js";
import { ProblemBox } from "../../components/problem.js";
import { sayProblem } from "../../components/toast.js";
import { ago } from "../../core/format.js";

/** @type {Record<string, [string, string]>} */
const SAID = {
  saved: ["ok", "Saved"],
  unsaved: ["waiting", "Not saved yet"],
  saving: ["refresh", "Saving"],
  failed: ["error", "Not saved"],
  new: ["info", "Not saved: it has no name yet"],
  "changed-elsewhere": ["warning", "Changed elsewhere"],
};

/**
 * Whether the draft is saved; what to do when it was changed elsewhere.
 * @param {{store: import("./draft_store.js").DraftStore}} props
 */
export function SaveState({ store }) {
  const [icon, text] = SAID[store.saved.value];
  const [busy, setBusy] = useState(false);
  const act = async (/** @type {() => Promise<void>} */ what) => {
    setBusy(true);
    await what().catch(sayProblem);
    setBusy(false);
  };
  const problem = store.problem.value;
  return html`<span class="save-state muted" role="status" title=${store.updated.value ? `Last saved ${ago(store.updated.value)}` : undefined}><${Icon} name=${icon} />${text}</span>
    ${store.saved.value === "changed-elsewhere" &&
    html`<div class="note warn whole-line" role="alert"><${Icon} name="warning" /><div>
      <p><strong>This draft was changed elsewhere.</strong> Nothing of yours is saved until you choose.</p>
      <p class="actions"><button type="button" class="small" disabled=${busy} onClick=${() => act(() => store.takeTheirs())}>Load the other version</button>
      <button type="button" class="small" disabled=${busy} onClick=${() => act(() => store.keepMine())}>Overwrite it with mine</button></p>
    </div></div>`}
    ${store.saved.value === "failed" && problem && html`<div class="whole-line"><${ProblemBox} problem=${problem} title="The draft cannot be saved" retry=${() => act(() => store.save())} /></div>`}`;
}
