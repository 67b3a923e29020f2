// @ts-check
import { html, useId, useState } from "../core/html.js";
import { signIn } from "../core/session.js";
import { ApiProblem } from "../core/api.js";
import { asProblem } from "../core/resource.js";
import { ProblemBox } from "./problem.js";

/**
 * The service says that a token is needed; here one was given.
 * @param {ApiProblem} problem
 */
function refused(problem) {
  if (problem.code !== "RPL-1540") return problem;
  const detail = "this token is not valid here: it is mistyped, has expired, was revoked, or is of another service";
  return new ApiProblem(problem.status, { code: problem.code, detail, hint: "`replicator token list` lists tokens, and `replicator token create` creates one; both need the service's `--store`" });
}

/** Asks for a token. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const id = useId();
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await signIn(token.trim());
    } catch (error) {
      setProblem(refused(asProblem(error)));
      setBusy(false);
    }
  };
  return html`<form class="sign-in panel" onSubmit=${submit}>
    <h1>Sign in</h1>
    <p>This service is used with a token. An admin creates one with <code>replicator token create --role operator</code>.</p>
    <div class="field">
      <label for=${id}>Token</label>
      <input id=${id} type="password" autocomplete="current-password" required value=${token} onInput=${(/** @type {any} */ event) => setToken(event.target.value)} />
    </div>
    ${problem && html`<${ProblemBox} problem=${problem} />`}
    <p class="actions"><button type="submit" class="primary" disabled=${busy}>Sign in</button></p>
  </form>`;
}
