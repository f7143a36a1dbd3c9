/** How a container or sandbox stands, for `gantry explain`. Absent is what is not known or has not happened. */
export interface ObjectState {
  readonly kind: 'container' | 'sandbox';
  readonly id: string;
  /** The container's name, the pod's for a sandbox. */
  readonly name: string;
  readonly podNamespace?: string;
  readonly podName?: string;
  readonly podUid?: string;
  /** And what is on its way: `running, stopping`. */
  readonly state: string;
  /** Which run of the container, which sandbox of the pod; 0 is the first. */
  readonly attempt: number;
  /** Of a container that has ended, where its code is known. */
  readonly exitCode?: number;
  /** `OOMKilled`, `StartError`, `Unknown`, `Completed` … */
  readonly reason?: string;
  readonly message?: string;
  readonly createdAtWallMs: number;
  readonly startedAtWallMs?: number;
  readonly finishedAtWallMs?: number;
}
