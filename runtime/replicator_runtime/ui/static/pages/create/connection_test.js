// @ts-check
import { html, useEffect, useRef, useState } from "../../core/html.js";
import { context, request } from "../../core/api.js";
import { asProblem } from "../../core/resource.js";
import { StatusBadge } from "../../components/badge.js";
import { CopyAs, CopyButton } from "../../components/copy_button.js";
import { ProblemBox, sentence, withCode } from "../../components/problem.js";
import { counted } from "../../core/format.js";

/** @typedef {import("../../core/shapes.js").Check} Check */

/**
 * Tests a connection, and shows each check with the statement that fixes it.
 * @param {{namespace: string, plugin: {name: string, type: string, properties: Record<string, any>}, ready: boolean, name?: string}} props
 *   `name` of a saved connection, which is then tested by its name.
 */
export function ConnectionTest({ namespace, plugin, ready, name }) {
  const [state, setState] = useState(/** @type {{checks: Check[] | null, problem: any, busy: boolean}} */ ({ checks: null, problem: null, busy: false }));
  const control = useRef(/** @type {AbortController | null} */ (null));
  const written = JSON.stringify(plugin);
  useEffect(() => {
    control.current?.abort();
    setState({ checks: null, problem: null, busy: false });
    return () => control.current?.abort();
  }, [written]);
  const url = name ? context(namespace, "connections", name, "test") : context(namespace, "connections", "test");
  const body = name ? undefined : plugin;
  const test = async () => {
    control.current = new AbortController();
    const { signal } = control.current;
    setState({ checks: null, problem: null, busy: true });
    try {
      const { data } = await request("POST", url, { body, signal });
      setState({ checks: data, problem: null, busy: false });
    } catch (error) {
      if (!signal.aborted) setState({ checks: null, problem: asProblem(error), busy: false });
    }
  };
  return html`<section class="panel tight" aria-label="Connection test">
    <div class="panel-head"><h3>Connection test</h3><span class="gap"></span><${CopyAs} method="POST" url=${url} body=${body} />
      <button type="button" class="small" disabled=${!ready || state.busy} onClick=${test}>${state.busy ? "Testing…" : "Test connection"}</button></div>
    <div aria-live="polite">
      ${state.problem && html`<div class="padded"><${ProblemBox} problem=${state.problem} retry=${test} title="The connection could not be tested" /></div>`}
      ${state.checks ? html`<${Checks} checks=${state.checks} />` : !state.problem && html`<p class="padded muted">${state.busy ? "Connecting, and looking at settings and grants…" : "Connects with these settings and looks at log settings, grants and limits. It changes nothing."}</p>`}
    </div>
  </section>`;
}

/** @param {{checks: Check[]}} props */
export function Checks({ checks }) {
  const bad = checks.filter((one) => one.status === "fail").length;
  return html`<p class="padded checks-sum"><strong>${bad === 0 ? `${counted(checks.length, "check")}, none failed.` : `${counted(bad, "check")} of ${checks.length} failed.`}</strong></p>
    <ul class="checks">
      ${checks.map(
        (check) => html`<li key=${check.name}>
          <${StatusBadge} state=${check.status} />
          <div><p><strong>${check.name.replace(/_/g, " ")}</strong>${check.code && html` <code>${check.code}</code>`}</p><p>${withCode(sentence(check.message))}</p>
            ${check.hint && check.status !== "ok" && html`<p>Next: ${withCode(check.hint)}</p>`}
            ${check.fix && html`<div class="sql"><pre>${check.fix}</pre><${CopyButton} text=${check.fix} label="Copy fix" /></div>`}</div>
        </li>`,
      )}
    </ul>`;
}
