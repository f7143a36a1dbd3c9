/**
 *   syncing --(deletion, gone from the API, all has ended)--> terminating
 *   terminating --(no process is left, sandboxes stopped)--> terminated
 *   terminated --(volumes gone or blocked, deletion asked for; sandbox, logs and object removed)--> finished
 *
 * There is no way back. A pod whose containers have ended by themselves waits in `terminated`, with its containers and
 * logs, until somebody deletes it.
 */
export type WorkerPhase = 'syncing' | 'terminating' | 'terminated' | 'finished';
