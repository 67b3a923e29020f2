// @ts-check
import { html } from "../core/html.js";

/**
 * What is shown where there is nothing yet: what it is, and the next step.
 * @param {{title: string, children?: any, action?: any}} props
 */
export function Empty({ title, children, action }) {
  return html`<div class="empty"><h2>${title}</h2><div>${children}</div>${action && html`<p class="actions">${action}</p>`}</div>`;
}

/**
 * While something is read.
 * @param {{what?: string}} props
 */
export function Loading({ what = "Loading" }) {
  return html`<p class="loading" role="status">${what}…</p>`;
}
