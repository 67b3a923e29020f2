// @ts-check
import { html, useRef, useState } from "../../core/html.js";
import { go, here } from "../../core/router.js";
import { sayProblem } from "../../components/toast.js";
import { Icon } from "../../components/icons.js";
import { useValidation } from "./validation.js";
import { Stepper } from "./stepper.js";
import { SaveState } from "./save_state.js";
import { JsonPanel } from "./json_panel.js";
import { pluginOf } from "./config_edits.js";
import { STEPS, stepIndex } from "./steps.js";
import { BasicsStep } from "./basics_step.js";
import { PluginStep } from "./plugin_step.js";
import { TablesStep } from "./tables_step.js";
import { AdvancedStep } from "./advanced_step.js";
import { AssessmentStep } from "./assessment_step.js";
import { SummaryStep } from "./summary_step.js";

/** @type {Record<string, any>} */
const BODIES = {
  basics: BasicsStep,
  source: (/** @type {any} */ props) => html`<${PluginStep} ...${props} type="cdcSource" />`,
  tables: TablesStep,
  target: (/** @type {any} */ props) => html`<${PluginStep} ...${props} type="cdcTarget" />`,
  advanced: AdvancedStep,
  assessment: AssessmentStep,
  summary: SummaryStep,
};

/**
 * What a step's body may say of itself: whether Next is allowed, and what Next does first.
 * @typedef {object} StepControl
 * @property {(why: string) => void} block Why Next is not allowed; empty when it is.
 * @property {() => void} next
 * @property {boolean} tried Whether Next was refused: what is missing is shown.
 */

/**
 * Seven steps; each has an address, and the config is the same object in all of them.
 * @param {{store: import("./draft_store.js").DraftStore, step: string, onCreated: (store: import("./draft_store.js").DraftStore) => void}} props
 */
export function Wizard({ store, step, onCreated }) {
  const config = store.config.value;
  const index = stepIndex(step);
  const [blocked, setBlocked] = useState(/** @type {Record<string, string>} */ ({}));
  const [tried, setTried] = useState(/** @type {Record<string, boolean>} */ ({}));
  const validation = useValidation(store, ["source", "target", "advanced"].includes(step));
  const edit = (/** @type {any} */ next) => store.edit(next);
  const why = blocked[step] ?? "";
  const newest = useRef({});
  newest.current = blocked;
  const to = async (/** @type {string} */ key) => {
    try {
      if (store.name && store.saved.value !== "changed-elsewhere") await store.save();
    } catch {
      return; // What is wrong is shown above.
    }
    go(here("create", store.name, key));
  };
  const advance = async (/** @type {string | undefined} */ key) => {
    await drawn(); // What was typed just before Enter counts.
    if (/** @type {Record<string, string>} */ (newest.current)[step]) return setTried({ ...tried, [step]: true });
    if (!store.name) {
      try {
        const name = store.config.value.name;
        await store.create(name);
        onCreated(store);
      } catch (error) {
        return sayProblem(error);
      }
    }
    if (key) await to(key);
  };
  const next = () => advance(STEPS[index + 1]?.key);
  const Body = BODIES[step] ?? BasicsStep;
  const block = (/** @type {string} */ reason) => setBlocked((before) => (before[step] === reason ? before : { ...before, [step]: reason }));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    next();
  };
  return html`<div class="page-head">
      <h1>${store.name || "Create a pipeline"}</h1>
      <${SaveState} store=${store} />
      <a class="button quiet" href=${here("drafts")}>Drafts</a>
    </div>
    <${Stepper} name=${store.name} shown=${step} complete=${complete(store, validation.errors, index)} />
    <div class="wizard">
      <form class="wizard-step stack" aria-labelledby="step-title" noValidate onSubmit=${submit}>
        <h2 id="step-title" class="step-title">${index + 1}. ${STEPS[index].label}</h2>
        <${Body} key=${step} store=${store} config=${config} edit=${edit} control=${{ block, next, tried: !!tried[step] }} validation=${validation} />
        <footer class="wizard-foot">
          <button type="button" disabled=${index === 0} onClick=${() => to(STEPS[index - 1].key)}><${Icon} name="left" />Back</button>
          <span class="gap" role="status">${why && tried[step] ? html`<span class="wrong-line"><${Icon} name="error" />${why}</span>` : ""}</span>
          ${step === "target" && html`<button type="button" onClick=${() => advance("assessment")}>Skip to assessment</button>`}
          ${index < STEPS.length - 1 && html`<button type="submit" class="primary">Next<${Icon} name="right" /></button>`}
        </footer>
      </form>
      <${JsonPanel} config=${config} onChange=${edit} />
    </div>`;
}

/** Waits until the page shows what was entered last, and has looked at it. @returns {Promise<void>} */
function drawn() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 30))));
}

/**
 * @param {import("./draft_store.js").DraftStore} store
 * @param {Record<string, string>} errors
 * @param {number} index The shown step: those before it have been seen.
 */
function complete(store, errors, index) {
  const config = store.config.value;
  const source = pluginOf(config, "cdcSource");
  const target = pluginOf(config, "cdcTarget");
  const wrongAt = (/** @type {any} */ plugin) => Object.keys(errors).some((pointer) => plugin && pointer.startsWith(`/stages/${config.stages.findIndex((/** @type {any} */ one) => one.plugin?.type === plugin.type)}/`));
  return { basics: !!store.name, source: !!source && !wrongAt(source), tables: !!source && (index > 2 || !!target || config.tables?.length > 0), advanced: index > 4, assessment: index > 5, target: !!target && !wrongAt(target) };
}
