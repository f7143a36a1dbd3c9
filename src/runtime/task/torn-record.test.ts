import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isBlockedByTornRecord, type FailedDeletion } from './torn-record.ts';

const gone: Omit<FailedDeletion, 'records'> = { initAlive: false, processes: 0 };

const ROWS: readonly (readonly [title: string, deletion: FailedDeletion, expected: boolean])[] = [
  ['an empty record', { ...gone, records: [''] }, true],
  ['zeros, as a power cut leaves them', { ...gone, records: ['\0\0\0'] }, true],
  ['garbage', { ...gone, records: ['{garbage'] }, true],
  ['cut off', { ...gone, records: ['{"pid":12,"sta'] }, true],
  ['JSON, but no record', { ...gone, records: ['12'] }, true],
  ['nothing, as JSON', { ...gone, records: ['null'] }, true],
  ['a record that can be read', { ...gone, records: ['{"pid":12}'] }, false],
  ['one of two can be read', { ...gone, records: ['', '{"pid":12}'] }, false],
  ['no record at all', { ...gone, records: [] }, false],
  ['its process lives', { records: [''], initAlive: true, processes: 0 }, false],
  ['something is in its cgroup', { records: [''], initAlive: false, processes: 1 }, false],
  ['what is in its cgroup is not known', { records: [''], initAlive: false, processes: undefined }, false],
];

for (const [title, deletion, expected] of ROWS) {
  test(`the OCI runtime's folder ${expected ? 'goes' : 'stays'} by hand: ${title}`, () => {
    assert.equal(isBlockedByTornRecord(deletion), expected);
  });
}
