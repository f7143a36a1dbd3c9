import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { kindOf } from '../../lib/errors.ts';
import { formatReference, parseReference, repositoryName, repositoryOf } from './reference.ts';

const HEX = 'a'.repeat(64);

describe('parseReference', () => {
  const table: readonly (readonly [string, string])[] = [
    ['busybox', 'docker.io/library/busybox:latest'],
    ['busybox:1.36', 'docker.io/library/busybox:1.36'],
    ['user/app', 'docker.io/user/app:latest'],
    ['docker.io/busybox', 'docker.io/library/busybox:latest'],
    ['index.docker.io/busybox', 'docker.io/library/busybox:latest'],
    ['docker.io/user/app:v1', 'docker.io/user/app:v1'],
    ['localhost/app', 'localhost/app:latest'],
    ['localhost:5000/app', 'localhost:5000/app:latest'],
    ['registry.example:443/a/b/c:T_1.x-y', 'registry.example:443/a/b/c:T_1.x-y'],
    ['[::1]:5000/app', '[::1]:5000/app:latest'],
    ['[2001:db8::1]/a/b:1', '[2001:db8::1]/a/b:1'],
    ['127.0.0.1:5000/app', '127.0.0.1:5000/app:latest'],
    ['Host/app', 'Host/app:latest'],
    [`app@sha256:${HEX}`, `docker.io/library/app@sha256:${HEX}`],
    [`r.example/app:v1@sha256:${HEX}`, `r.example/app@sha256:${HEX}`],
    [`r.example/app@sha512:${HEX}${HEX}`, `r.example/app@sha512:${HEX}${HEX}`],
    ['a/b__c/d--e/f.g', 'docker.io/a/b__c/d--e/f.g:latest'],
    ['host:1', 'docker.io/library/host:1'],
  ];
  for (const [given, expected] of table) {
    it(`reads ${given}`, () => {
      assert.equal(formatReference(parseReference(given)), expected);
    });
  }

  const refused: readonly (readonly [string, RegExp])[] = [
    ['', /empty/],
    [' busybox', /white space/],
    ['bus box', /white space/],
    ['https://docker.io/busybox', /scheme/],
    ['docker://busybox', /scheme/],
    [HEX, /image id/],
    ['Busybox', /lower case/],
    ['user/App', /lower case/],
    ['a//b', /empty/],
    ['a/b/', /empty/],
    ['app:', /not a tag/],
    ['app:-x', /not a tag/],
    [`app:${'x'.repeat(129)}`, /not a tag/],
    ['app@sha256:abc', /not a digest/],
    [`app@md5:${HEX}`, /not a digest/],
    [`app@sha256:${HEX.toUpperCase()}`, /not a digest/],
    ['-bad.example/app', /not a host name/],
    ['bad_host.example/app', /not a host name/],
    ['host.example:port/app', /not a host name/],
    ['a/../b', /not a part/],
    ['a/.hidden', /not a part/],
    ['r.example/', /missing/],
    [`r.example/${'a'.repeat(250)}`, /longer/],
    ['::', /missing|not a tag/],
  ];
  for (const [given, expected] of refused) {
    it(`refuses ${JSON.stringify(given.slice(0, 40))}`, () => {
      assert.throws(
        () => parseReference(given),
        (error: Error) => kindOf(error) === 'InvalidArgument' && expected.test(error.message),
      );
    });
  }

  it('reads back what it wrote, whatever the parts', () => {
    const label = fc.stringMatching(/^[a-z0-9]{1,8}$/);
    const domain = fc.oneof(
      fc.tuple(label, label).map(([a, b]) => `${a}.${b}`),
      fc.tuple(label, fc.integer({ min: 1, max: 65535 })).map(([a, port]) => `${a}:${String(port)}`),
      fc.constant('docker.io'),
    );
    const repository = fc.array(label, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
    const suffix = fc.oneof(
      fc.constant(''),
      fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/).map((tag) => `:${tag}`),
      fc.stringMatching(/^[0-9a-f]{64}$/).map((hex) => `@sha256:${hex}`),
    );
    fc.assert(
      fc.property(domain, repository, suffix, (d, r, s) => {
        const once = parseReference(`${d}/${r}${s}`);
        const text = formatReference(once);
        assert.deepEqual(parseReference(text), once);
        assert.equal(repositoryOf(text), repositoryName(once));
      }),
    );
  });

  it('throws nothing but InvalidArgument', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        try {
          parseReference(text);
        } catch (error) {
          assert.equal(kindOf(error), 'InvalidArgument');
        }
      }),
    );
  });
});
