// @ts-check
/** What an assessment says, by the tabs of the page. */

/** @typedef {import("../../core/shapes.js").Finding} Finding */
/** @typedef {import("../../core/shapes.js").AssessedTable} AssessedTable */
/** @typedef {import("../../core/shapes.js").PipelineAssessment} Assessment */

/**
 * @param {Assessment} found
 * @returns {{schema: Finding[], tables: AssessedTable[], features: Finding[], connectivity: Finding[], notes: Finding[], errors: number}}
 */
export function byTab(found) {
  const features = found.featureProblems ?? [];
  const connectivity = found.connectivityProblems ?? [];
  const schema = features.filter((one) => one.place === "table" || one.table);
  const rest = features.filter((one) => !schema.includes(one));
  const errors = [...features, ...connectivity].filter((one) => one.severity === "ERROR").length;
  return { schema: worst(schema), tables: found.tables ?? [], features: worst(rest), connectivity: worst(connectivity), notes: found.notes ?? [], errors };
}

/** @param {Finding[]} findings */
function worst(findings) {
  return [...findings].sort((one, other) => rank(one) - rank(other));
}

/** @param {Finding} finding */
function rank(finding) {
  return ["ERROR", "WARNING", "INFO"].indexOf(finding.severity);
}

/**
 * As Markdown, for a ticket.
 * @param {string} name
 * @param {Assessment} found
 */
export function asMarkdown(name, found) {
  const { schema, features, connectivity, notes } = byTab(found);
  const part = (/** @type {string} */ title, /** @type {Finding[]} */ findings) =>
    findings.length ? [`## ${title}`, "", ...findings.map((one) => `- **${one.severity}** ${[one.schema, one.table, one.column].filter(Boolean).join(".")} ${one.description} ${one.suggestion}${one.fix ? `\n\n  \`\`\`sql\n  ${one.fix.replaceAll("\n", "\n  ")}\n  \`\`\`` : ""}`), ""] : [];
  return [`# Assessment of ${name}`, "", ...part("Connectivity issues", connectivity), ...part("Schema issues", schema), ...part("Missing features", features), ...part("Notes", notes)].join("\n");
}
