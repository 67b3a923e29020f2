// @ts-check
/**
 * What the service's operations answer, by its OpenAPI document. The check of types makes `replicator-api` from
 * docs/openapi.json (tests/runtime/ui/test_types.py); the browser never asks for it.
 *
 * @typedef {import("replicator-api").components["schemas"]} Schemas
 * @typedef {Schemas["DraftAnswer"]} Draft
 * @typedef {Schemas["ListedTable"]} ListedTable
 * @typedef {Schemas["TableList"]} TableList
 * @typedef {Schemas["DescribedTable"]} DescribedTable
 * @typedef {Schemas["TableSample"]} TableSample
 * @typedef {Schemas["PipelineAssessmentAnswer"]} PipelineAssessment
 * @typedef {Schemas["TableAssessmentAnswer"]} TableAssessment
 * @typedef {Schemas["AssessedTable"]} AssessedTable
 * @typedef {Schemas["AssessedColumn"]} AssessedColumn
 * @typedef {Schemas["AssessmentProblem"]} Finding
 * @typedef {Schemas["Validation"]} Validation
 * @typedef {Schemas["Check"]} Check
 * @typedef {Schemas["ConnectionAnswer"]} Connection
 * @typedef {Schemas["PluginItem"]} PluginItem
 * @typedef {Schemas["PluginDetail"]} PluginDetail
 * @typedef {Schemas["SessionView"]} Session
 * @typedef {Schemas["Problem"]} Problem
 * @typedef {Schemas["NewPipeline"]} NewPipeline
 */
export {};
