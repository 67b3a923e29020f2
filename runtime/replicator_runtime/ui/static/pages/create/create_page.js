// @ts-check
import { html, useEffect, useMemo, useState } from "../../core/html.js";
import { go, here } from "../../core/router.js";
import { may } from "../../core/session.js";
import { asProblem } from "../../core/resource.js";
import { ProblemBox } from "../../components/problem.js";
import { Loading } from "../../components/empty.js";
import { DraftStore } from "./draft_store.js";
import { Wizard } from "./wizard.js";
import { STEPS } from "./steps.js";

/** The store of the draft that was created last, so that its first step goes on with it. @type {DraftStore | null} */
let justCreated = null;

/**
 * The wizard at the address of a draft and a step.
 * @param {{values: Record<string, string>, query: URLSearchParams}} props
 */
export default function CreatePage({ values }) {
  const { namespace, draft = "", step } = values;
  const store = useMemo(() => (justCreated?.name === draft && justCreated.namespace === namespace && draft ? justCreated : new DraftStore(namespace, draft)), [namespace, draft]);
  const [state, setState] = useState(/** @type {{store: DraftStore | null, problem: any}} */ ({ store: null, problem: null }));
  const load = () => {
    if (!draft || store === justCreated) return setState({ store, problem: null });
    setState({ store: null, problem: null });
    return store.load().then(
      () => setState({ store, problem: null }),
      (error) => setState({ store, problem: asProblem(error) }),
    );
  };
  useEffect(() => {
    load();
    const leave = (/** @type {BeforeUnloadEvent} */ event) => {
      if (store.pending) {
        store.save().catch(() => {});
        event.preventDefault();
      }
    };
    window.addEventListener("beforeunload", leave);
    return () => {
      window.removeEventListener("beforeunload", leave);
      if (store.saved.value === "unsaved") store.save().catch(() => {});
      if (justCreated === store) justCreated = null;
    };
  }, [store]);
  useEffect(() => {
    if (draft && !STEPS.some((one) => one.key === step)) go(here("create", draft, "basics"), { replace: true });
  }, [draft, step]);
  if (!may("operator")) return html`<h1>Create a pipeline</h1><p class="muted">This needs the role operator. You may read pipelines and drafts.</p>`;
  if (state.problem) {
    return html`<h1>${draft}</h1><${ProblemBox} problem=${state.problem} retry=${load} /><p class="actions"><a class="button" href=${here("drafts")}>Show drafts</a></p>`;
  }
  if (state.store !== store) return html`<h1>${draft || "Create a pipeline"}</h1><${Loading} />`;
  const created = (/** @type {DraftStore} */ one) => {
    justCreated = one;
  };
  return html`<${Wizard} key=${`${namespace}/${draft}`} store=${store} step=${draft ? (step ?? "basics") : "basics"} onCreated=${created} />`;
}
