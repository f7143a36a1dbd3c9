/** A range of user or group ids: those inside a user namespace, from `containerId` on, are `hostId` and following outside. */
export interface IdMapping {
  readonly containerId: number;
  readonly hostId: number;
  readonly length: number;
}

/** Of a user namespace. */
export interface IdMappings {
  readonly uids: readonly IdMapping[];
  readonly gids: readonly IdMapping[];
}

/** The id outside; one that has none stays what it is, and is nobody's inside. */
export function hostIdOf(mappings: readonly IdMapping[], id: number): number {
  const range = mappings.find(({ containerId, length }) => id >= containerId && id - containerId < length);
  return range === undefined ? id : range.hostId + (id - range.containerId);
}

/** As `/proc/PID/uid_map` takes them, in one write. */
export function mapText(mappings: readonly IdMapping[]): string {
  return mappings.map(({ containerId, hostId, length }) => `${containerId} ${hostId} ${length}\n`).join('');
}
