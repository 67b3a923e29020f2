// @ts-check
/** The pipeline's JSON: read, edited, planned, saved, approved. */
import { html, useEffect, useState } from "../../core/html.js";
import { context, request } from "../../core/api.js";
import { asProblem } from "../../core/resource.js";
import { guardLeaving } from "../../core/router.js";
import { session } from "../../core/session.js";
import { download } from "../../core/commands.js";
import { Loading } from "../../components/empty.js";
import { CopyAs, CopyButton } from "../../components/copy_button.js";
import { ProblemBox } from "../../components/problem.js";
import { say } from "../../components/toast.js";
import { act } from "../../actions/ask.js";
import { whyNot } from "../../actions/actions.js";
import { actionOf } from "../../actions/suiting.js";
import { PlanView } from "./plan_view.js";

/** @typedef {import("../../live/pipeline_live.js").PipelineLive} PipelineLive */

/** @param {{ live: PipelineLive }} props */
export default function ConfigurationTab({ live }) {
  const [stored, setStored] = useState(/** @type {{ text: string, etag: string } | null} */ (null));
  const [text, setText] = useState("");
  const [edits, setEdits] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [plan, setPlan] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState("");
  const load = () =>
    request("GET", live.url()).then(
      ({ data, etag }) => {
        const found = JSON.stringify(data.config, null, 2);
        setStored({ text: found, etag });
        setText(found);
        setProblem(null);
        live.item.value = { ...live.item.peek(), ...data };
      },
      (error) => setProblem(asProblem(error)),
    );
  useEffect(() => void load(), [live]);
  const changed = stored !== null && text !== stored.text;
  useEffect(() => (changed ? guardLeaving(() => window.confirm("The edit is not saved. Leave it?")) : undefined), [changed]);
  if (!stored) return problem ? html`<${ProblemBox} problem=${problem} retry=${load} />` : html`<${Loading} what="The configuration is loaded" />`;

  /** @param {string} what @param {(config: any) => Promise<void>} work */
  const doing = async (what, work) => {
    setBusy(what);
    setProblem(null);
    try {
      await work(JSON.parse(text));
    } catch (error) {
      setProblem(error instanceof SyntaxError ? asProblem(new Error(`this is not JSON: ${error.message}`)) : asProblem(error));
    }
    setBusy("");
  };
  const makePlan = () => doing("plan", async (config) => setPlan((await request("POST", live.url("plan"), { body: changed ? { config } : {} })).data));
  const save = () =>
    doing("save", async (config) => {
      await request("PUT", live.url(), { body: { config }, etag: stored.etag });
      say("the configuration is saved; the next start has it");
      setEdits(false);
      await load();
    });
  const refused = whyNot({ role: "admin" }, session.value?.role);
  const item = live.item.value;
  const waits = item?.runningVersion != null && item.runningVersion !== item.configVersion;
  const body = () => ({ config: safeParse(text) });
  return html`
    ${waits && html`<div class="note warn"><div><p>The run was started with version ${item?.runningVersion}; version ${item?.configVersion} is stored. A restart applies it.</p>
      <p class="actions"><button type="button" onClick=${() => act({ namespace: live.namespace, name: live.name }, actionOf("restart"))}>Restart…</button></p></div></div>`}
    <section class="panel stack">
      <div class="row"><h2>Pipeline JSON</h2><span class="muted">version ${item?.configVersion ?? ""}${changed ? ", edited" : ""}</span><span class="gap"></span>
        ${!edits && html`<button type="button" disabled=${Boolean(refused)} title=${refused} onClick=${() => setEdits(true)}>Edit</button>`}
        <${CopyButton} text=${() => text} label="Copy JSON" />
        <button type="button" class="quiet small" onClick=${() => download(`${live.name}.json`, text)}>Download</button></div>
      ${edits
        ? html`<label class="off-screen" for="config-text">Pipeline JSON</label><textarea id="config-text" class="mono config" spellcheck=${false} value=${text} rows=${Math.min(40, text.split("\n").length + 1)} onInput=${(/** @type {any} */ event) => { setText(event.target.value); setPlan(null); }}></textarea>`
        : html`<pre class="json" tabindex="0" aria-label="Pipeline JSON">${text}</pre>`}
      ${problem && html`<${ProblemBox} problem=${problem} title=${problem.status === 412 ? "It was changed elsewhere since it was loaded" : undefined} retry=${problem.status === 412 ? load : undefined} />`}
      <div class="row">
        <button type="button" class=${edits ? "primary" : ""} disabled=${busy !== ""} onClick=${makePlan}>${busy === "plan" ? "The plan is made…" : "Show the plan"}</button>
        ${edits && html`<button type="button" disabled=${!changed || !plan || busy !== ""} title=${plan ? "" : "Look at the plan first"} onClick=${save}>${busy === "save" ? "It is saved…" : "Save"}</button>
          <button type="button" class="quiet" onClick=${() => { setText(stored.text); setPlan(null); setProblem(null); setEdits(false); }}>Take the edit back</button>`}
        <span class="gap"></span>
        <${CopyAs} words=${["plan", `${live.name}.json`]} method=${edits && changed ? "PUT" : "POST"} url=${edits && changed ? context(live.namespace, "pipelines", live.name) : live.url("plan")} body=${edits && changed ? body() : {}} />
      </div>
    </section>
    ${plan && html`<${PlanView} plan=${plan} live=${live} edited=${changed} />`}`;
}

/** @param {string} text */
function safeParse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
