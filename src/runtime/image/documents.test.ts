import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { kindOf } from '../../lib/errors.ts';
import { decodeImageConfig } from './image-config.ts';
import { decodeManifest } from './manifest.ts';
import { DOCKER_MANIFEST, OCI_CONFIG, OCI_MANIFEST } from './media-types.ts';
import { sniff } from './compression.ts';

const DIGEST = `sha256:${'0'.repeat(64)}`;
const CONFIG = { mediaType: OCI_CONFIG, digest: DIGEST, size: 2 };
const LAYER = { mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', digest: DIGEST, size: 3 };

describe('decodeManifest', () => {
  it('believes the document before the transport', () => {
    const text = JSON.stringify({ schemaVersion: 2, mediaType: OCI_MANIFEST, config: CONFIG, layers: [LAYER] });
    const manifest = decodeManifest(text, 'text/plain; charset=utf-8');
    assert.equal(manifest.kind, 'image');
    assert.equal(manifest.mediaType, OCI_MANIFEST);
    assert.equal(
      decodeManifest(text.replace(`"mediaType":"${OCI_MANIFEST}",`, ''), DOCKER_MANIFEST).mediaType,
      DOCKER_MANIFEST,
    );
  });

  const refused: readonly (readonly [string, unknown, string, RegExp])[] = [
    ['text', '{', 'InvalidArgument', /not JSON/],
    ['a list', [], 'InvalidArgument', /not an object/],
    ['schema 1', { schemaVersion: 1 }, 'NotImplemented', /schema 1/],
    ['schema 3', { schemaVersion: 3 }, 'InvalidArgument', /schema version 3/],
    ['no config', { schemaVersion: 2, layers: [] }, 'InvalidArgument', /no config/],
    ['both', { config: CONFIG, manifests: [] }, 'InvalidArgument', /also an index/],
    ['a chart', { config: { ...CONFIG, mediaType: 'x/chart' }, layers: [] }, 'InvalidArgument', /x\/chart/],
    [
      'a bad digest',
      { config: { ...CONFIG, digest: 'sha256:..' }, layers: [] },
      'InvalidArgument',
      /config has no valid digest/,
    ],
    [
      'a negative size',
      { config: CONFIG, layers: [{ ...LAYER, size: -1 }] },
      'InvalidArgument',
      /layers\[0\] has no valid size/,
    ],
    [
      'a signature',
      { config: CONFIG, layers: [{ ...LAYER, mediaType: 'x/sig' }] },
      'InvalidArgument',
      /no file system layer/,
    ],
    [
      'encrypted',
      { config: CONFIG, layers: [{ ...LAYER, mediaType: `${LAYER.mediaType}+encrypted` }] },
      'NotImplemented',
      /encrypted/,
    ],
    ['another type', { mediaType: 'x/y' }, 'InvalidArgument', /media type x\/y/],
  ];
  for (const [title, document, kind, expected] of refused) {
    it(`refuses ${title}`, () => {
      const text = typeof document === 'string' ? document : JSON.stringify(document);
      assert.throws(
        () => decodeManifest(text),
        (error: Error) => kindOf(error) === kind && expected.test(error.message),
      );
    });
  }

  it('throws only what it means to, whatever the document', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        for (const decode of [decodeManifest, decodeImageConfig]) {
          try {
            decode(text);
          } catch (error) {
            assert.ok(['InvalidArgument', 'NotImplemented'].includes(kindOf(error)), String(error));
          }
        }
      }),
    );
  });
});

describe('decodeImageConfig', () => {
  it('leaves out what is null or empty, as Docker writes it', () => {
    const config = decodeImageConfig(
      JSON.stringify({
        architecture: 'amd64',
        os: 'linux',
        config: { User: '', Env: null, Entrypoint: [], Cmd: 'sh', Labels: { a: 'b', c: 1 }, Unknown: 1 },
        rootfs: { type: 'layers', diff_ids: [DIGEST] },
      }),
    );
    assert.deepEqual(config.config, { Cmd: ['sh'], Labels: { a: 'b' } });
    assert.deepEqual(config.diffIds, [DIGEST]);
  });

  const refused: readonly (readonly [unknown, RegExp])[] = [
    [{}, /rootfs is not an object/],
    [{ rootfs: { diff_ids: ['x'] } }, /not a list of digests/],
    [{ rootfs: { diff_ids: Array<string>(1001).fill(DIGEST) } }, /1001 layers/],
    [{ rootfs: {}, config: { Env: [1] } }, /Env is not a list of texts/],
    [{ rootfs: {}, config: { Cmd: ['a\0b'] } }, /Cmd is not a list/],
    [{ rootfs: {}, config: { User: 'a\0b' } }, /User contains a NUL/],
    [{ rootfs: {}, config: { Volumes: [] } }, /Volumes is not an object/],
  ];
  for (const [document, expected] of refused) {
    it(`refuses ${JSON.stringify(document).slice(0, 60)}`, () => {
      assert.throws(() => decodeImageConfig(JSON.stringify(document)), expected);
    });
  }
});

describe('sniff', () => {
  it('knows forms by their first bytes', () => {
    assert.equal(sniff(Buffer.from([0x1f, 0x8b])), 'gzip');
    assert.equal(sniff(Buffer.from([0x28, 0xb5, 0x2f, 0xfd])), 'zstd');
    assert.equal(sniff(Buffer.from([0x5a, 0x2a, 0x4d, 0x18])), 'zstd');
    assert.equal(sniff(Buffer.alloc(512)), 'tar');
    assert.equal(sniff(Buffer.from('hello')), undefined);
    assert.equal(sniff(Buffer.alloc(512, 0x20)), undefined);
    assert.equal(sniff(Buffer.alloc(0)), undefined);
  });
});
