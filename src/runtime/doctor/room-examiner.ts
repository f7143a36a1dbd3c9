import type { Examiner } from '../../lib/doctor.ts';
import type { Room } from '../../lib/store/disk-room.ts';

/** Says that the disk is full, which only its owner can change. */
export function roomExaminer(room: Room & { readonly reservePath?: string }): Examiner {
  return {
    examine: () => {
      const { shortage, reservePath: key = 'reserve' } = room;
      if (shortage === undefined) return Promise.resolve({ diagnoses: [], notices: [] });
      const finding = { problem: 'missing', kind: 'reserve', key, message: shortage } as const;
      return Promise.resolve({ diagnoses: [{ finding }], notices: [] });
    },
  };
}
