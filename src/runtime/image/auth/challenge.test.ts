import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseChallenges } from './challenge.ts';

describe('parseChallenges', () => {
  const table: readonly (readonly [string, ReturnType<typeof parseChallenges>])[] = [
    ['', []],
    ['Basic realm="x"', [{ scheme: 'basic', parameters: { realm: 'x' } }]],
    [
      'Bearer realm="https://a/token",service="a, b",scope="repository:x:pull,push"',
      [
        {
          scheme: 'bearer',
          parameters: { realm: 'https://a/token', service: 'a, b', scope: 'repository:x:pull,push' },
        },
      ],
    ],
    [
      'Negotiate, Basic realm=plain , BEARER Realm = "q\\"uote"',
      [
        { scheme: 'negotiate', parameters: {} },
        { scheme: 'basic', parameters: { realm: 'plain' } },
        { scheme: 'bearer', parameters: { realm: 'q"uote' } },
      ],
    ],
    ['realm="no scheme"', []],
    ['Bearer realm="unfinished', [{ scheme: 'bearer', parameters: { realm: 'unfinished' } }]],
    ['=;=,,', []],
  ];
  for (const [header, expected] of table) {
    it(`reads ${JSON.stringify(header)}`, () => {
      assert.deepEqual(parseChallenges(header), expected);
    });
  }

  it('ends, whatever a server sends', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (header) => {
        for (const { scheme } of parseChallenges(header)) assert.notEqual(scheme, '');
      }),
    );
  });
});
