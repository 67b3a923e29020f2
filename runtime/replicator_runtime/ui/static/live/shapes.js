// @ts-check
/**
 * What the service sends of pipelines and tables, as far as these pages read it.
 *
 * @typedef {{ code?: string | null, message: string, hint?: string | null, table?: string, at?: string | null, times?: number }} Fault
 * @typedef {{ reason: string, text: string, count?: number, code?: string }} Reason
 *
 * @typedef {object} PipelineItem
 * @property {string} name
 * @property {string} [created]
 * @property {string} [updated]
 * @property {"started" | "stopped" | "deleting"} wanted
 * @property {string} state Of its process: starting, running, stopping, waiting, backoff, stopped, failed, deleting.
 * @property {number | null} [exitCode]
 * @property {string | null} [phase] Of its run: starting, snapshot, streaming, retrying, paused, stopping, done, failed.
 * @property {string | null} [statusAt] When a run wrote this.
 * @property {boolean} [paused]
 * @property {number | null} [worstLagSeconds]
 * @property {Record<string, number>} [tables] How many there are by state.
 * @property {number | null} [heldBytes]
 * @property {number | null} [secondsLeft] Until the source gives up log that is needed.
 * @property {number | null} [rowsPerSecond]
 * @property {Fault | null} [lastError]
 * @property {string | null} [verifiedAt]
 * @property {boolean | null} [sloBroken]
 * @property {number | null} [sloRatio]
 * @property {number} [requestsWaiting]
 * @property {Reason[]} [needsYou]
 * @property {number} [configVersion]
 * @property {number | null} [runningVersion] With which its process was started.
 * @property {any} [config]
 *
 * @typedef {object} TableRow
 * @property {string} id By which a request finds exactly this table.
 * @property {string} name For people.
 * @property {string} database
 * @property {string} schema
 * @property {string} table
 * @property {string} state
 * @property {number | null} [rows]
 * @property {number | null} [snapshotPercent]
 * @property {number | null} [lagSeconds]
 * @property {number | null} [rowsPerSecond]
 * @property {number | null} [copied]
 * @property {number | null} [inserts]
 * @property {number | null} [updates]
 * @property {number | null} [deletes]
 * @property {Fault | null} [error]
 * @property {Fault | null} [lastError]
 * @property {any} [pause]
 * @property {string | null} [waitsFor]
 * @property {string | null} [copyAgainAt]
 * @property {string | null} [failingSince]
 * @property {number} [rowsPutAside]
 * @property {string | null} [verifiedAt]
 * @property {string | null} [verifyResult]
 * @property {Record<string, {doneAt: string | null, error: string | null}>} [maintenance]
 */
export {};
