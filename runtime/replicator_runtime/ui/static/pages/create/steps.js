// @ts-check
/** The steps of the wizard, with CDAP's labels. */

/** @typedef {{key: string, label: string}} Step */

/** @type {Step[]} */
export const STEPS = [
  { key: "basics", label: "Specify basic information" },
  { key: "source", label: "Configure source" },
  { key: "tables", label: "Select tables" },
  { key: "target", label: "Configure target" },
  { key: "advanced", label: "Configure advanced properties" },
  { key: "assessment", label: "Review assessment" },
  { key: "summary", label: "View summary" },
];

/** @param {string | undefined} key */
export function stepIndex(key) {
  return Math.max(0, STEPS.findIndex((step) => step.key === key));
}
