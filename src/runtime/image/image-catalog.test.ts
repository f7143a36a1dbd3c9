import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ImageCatalog } from './image-catalog.ts';
import type { StoredImage } from './image-records.ts';

function image(digit: string): StoredImage {
  return {
    id: `sha256:${digit.repeat(64)}`,
    manifestDigest: undefined,
    config: { config: {}, diffIds: [] },
    layers: [],
    storedAtWallMs: 0,
  };
}

const [A, B] = [image('a'), image('b')];
const DIGEST = `sha256:${'1'.repeat(64)}`;

function catalog(names: Readonly<Record<string, StoredImage>>): ImageCatalog {
  return new ImageCatalog([A, B], new Map(Object.entries(names).map(([name, of]) => [name, of.id])));
}

describe('ImageCatalog', () => {
  it('resolves names, ids and beginnings of ids', () => {
    const all = catalog({
      'docker.io/library/app:latest': A,
      [`r.example/app@${DIGEST}`]: B,
      'docker.io/library/bbbb:latest': A,
    });
    const table: readonly (readonly [string, StoredImage | undefined])[] = [
      ['app', A],
      ['app:latest', A],
      ['docker.io/app', A],
      ['app:other', undefined],
      [`r.example/app:any@${DIGEST}`, B],
      [A.id, A],
      [A.id.slice(7), A],
      ['sha256:aaaa', A],
      ['aaaaaa', A],
      ['aaa', undefined],
      ['bbbb', A], // a name before the beginning of an id
      ['bbbbb', B],
      ['', undefined],
      ['not a name', undefined],
    ];
    for (const [text, expected] of table) assert.equal(all.resolve(text)?.id, expected?.id, text);
  });

  it('does not guess between two ids', () => {
    const [one, two] = [image('c'), { ...image('c'), id: `sha256:${'c'.repeat(63)}d` }];
    assert.equal(new ImageCatalog([one, two], new Map()).resolve('cccc'), undefined);
  });

  it('plans removals', () => {
    const names = {
      'r.example/app:1': A,
      'r.example/app:2': A,
      [`r.example/app@${DIGEST}`]: A,
      'r.example/b:1': B,
      [`r.example/c@${DIGEST}`]: B,
    };
    const table: readonly (readonly [string, string, number])[] = [
      ['r.example/app:1', 'untag', 1],
      [`r.example/app@${DIGEST}`, 'untag', 1],
      [A.id, 'remove', 3],
      ['r.example/b:1', 'untag', 1], // it was pulled by another repository's digest too
      ['r.example/none', 'absent', 0],
    ];
    for (const [text, kind, count] of table) {
      const plan = catalog(names).planRemoval(text);
      assert.deepEqual([plan.kind, plan.kind === 'absent' ? 0 : plan.names.length], [kind, count], text);
    }
  });

  it('never leaves an image with digests of a repository whose last tag went', () => {
    const repository = fc.constantFrom('r.example/x', 'r.example/y');
    const name = fc.oneof(
      fc.tuple(repository, fc.constantFrom('1', '2')).map(([r, tag]) => `${r}:${tag}`),
      repository.map((r) => `${r}@${DIGEST}`),
    );
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 1 }), fc.nat(), (names, pick) => {
        const all = catalog(Object.fromEntries(names.map((one) => [one, A])));
        const chosen = names[pick % names.length] ?? '';
        const plan = all.planRemoval(chosen);
        assert.notEqual(plan.kind, 'absent');
        if (plan.kind === 'absent') return;
        assert.ok(plan.names.includes(chosen));
        const left = names.filter((one) => !plan.names.includes(one));
        assert.equal(plan.kind === 'remove', left.length === 0);
        // Only the chosen one and digests ever go.
        for (const gone of plan.names) assert.ok(gone === chosen || gone.includes('@'));
      }),
    );
  });

  it('a name belongs to one image', () => {
    const all = catalog({ 'r.example/app:1': A });
    all.put(B, ['r.example/app:1']);
    assert.deepEqual(all.namesOf(A.id), { tags: [], digests: [] });
    assert.equal(all.resolve('r.example/app:1'), B);
    all.remove(B.id);
    assert.equal(all.resolve('r.example/app:1'), undefined);
  });
});
