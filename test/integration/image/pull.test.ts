import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { GantryError, kindOf } from '../../../src/lib/errors.ts';
import type { LayerProgress } from '../../../src/runtime/image/progress.ts';
import { failsWith, Fixture } from './fixture.ts';
import { TestRegistry } from '../../support/registry.ts';
import { blobOf, damagedLayer, hostPlatform, imageOf, indexOf, layerOf } from '../../support/images.ts';

describe('pull', () => {
  it('brings in an image with layers of every form, and says how far it is', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const layers = [await layerOf('plain', 'none'), await layerOf('gz', 'gzip'), await layerOf('zst', 'zstd')];
    const image = imageOf(layers, { config: { Entrypoint: ['/init'], Env: ['A=1'], User: '1000:1000' } });
    registry.push('team/app', image, 'v1');
    const events: LayerProgress[] = [];
    const record = await fixture.images.pull(fixture.op, `${registry.host}/team/app:v1`, undefined, (event) => {
      events.push(event);
    });
    assert.equal(record.id, image.id);
    assert.deepEqual(record.repoTags, [`${registry.host}/team/app:v1`]);
    assert.deepEqual(record.repoDigests, [`${registry.host}/team/app@${image.manifest.digest}`]);
    assert.deepEqual(
      record.layers.map((layer) => layer.diffId),
      layers.map((layer) => layer.diffId),
    );
    assert.deepEqual(record.config.config.Entrypoint, ['/init']);
    assert.equal(
      record.sizeBytes,
      layers.reduce((sum, layer) => sum + layer.tar.length, 0),
    );
    assert.deepEqual(fixture.images.resolve(`${registry.host}/team/app:v1`), record);
    assert.deepEqual(fixture.images.resolve(image.id.slice(7, 20)), record);
    for (const layer of layers) {
      const states = events.filter((event) => event.layer === layer.digest).map((event) => event.state);
      assert.deepEqual([...new Set(states)], ['waiting', 'downloading', 'unpacking', 'done']);
    }
    assert.deepEqual(await fixture.leftovers(), []);
  });

  it('takes a Docker schema 2 image and chooses from a list by platform', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const decoy = imageOf([await layerOf('decoy')], { platform: { os: 'linux', architecture: 's390x' } });
    const image = imageOf([await layerOf('ours')], { docker: true });
    const index = indexOf([
      { image: decoy, platform: { os: 'linux', architecture: 's390x' } },
      { image, platform: hostPlatform() },
    ]);
    registry.push('app', decoy);
    registry.push('app', image);
    registry.pushManifest('app', index, 'latest');
    const record = await fixture.images.pull(fixture.op, `${registry.host}/app`);
    assert.equal(record.id, image.id);
    assert.equal(record.manifestDigest, image.manifest.digest);
    assert.deepEqual(record.repoDigests, [`${registry.host}/app@${index.digest}`]);
    const byDigest = await fixture.images.pull(fixture.op, `${registry.host}/app@${index.digest}`);
    assert.equal(byDigest.id, image.id);
  });

  it('does not fetch layers that are here, and moves a tag', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const base = await layerOf('base');
    const one = imageOf([base, await layerOf('one')]);
    const two = imageOf([base, await layerOf('two')]);
    registry.push('app', one, 'latest');
    await fixture.images.pull(fixture.op, `${registry.host}/app`);
    registry.push('app', two, 'latest');
    await fixture.images.pull(fixture.op, `${registry.host}/app`);
    assert.equal(registry.count(base.digest), 1);
    assert.equal(fixture.images.resolve(`${registry.host}/app`)?.id, two.id);
    assert.deepEqual(fixture.images.resolve(one.id)?.repoTags, []);
    assert.equal(fixture.images.resolve(one.id)?.repoDigests.length, 1);
  });

  it('does the pull of one image once, and shares layers between images', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const shared = await layerOf(randomBytes(100_000));
    const one = imageOf([shared, await layerOf('one')]);
    const two = imageOf([shared, await layerOf('two')]);
    registry.push('one', one, 'latest');
    registry.push('two', two, 'latest');
    const open = Promise.withResolvers<undefined>();
    fixture.layers.gate = () => open.promise;
    const pulls = ['one', 'one', 'two', 'one', 'two'].map((name) =>
      fixture.images.pull(fixture.op, `${registry.host}/${name}`),
    );
    setTimeout(() => {
      open.resolve(undefined);
    }, 100);
    const records = await Promise.all(pulls);
    assert.deepEqual(
      records.map((record) => record.id),
      [one.id, one.id, two.id, one.id, two.id],
    );
    assert.equal(registry.count(shared.digest), 1);
    assert.equal(registry.count('/one/manifests/latest'), 1);
    assert.equal(fixture.layers.unpacked.length, 3);
  });

  it('leaves a joined pull alone when the first caller gives up', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'latest');
    const open = Promise.withResolvers<undefined>();
    fixture.layers.gate = () => open.promise;
    const controller = new AbortController();
    const first = fixture.images.pull({ ...fixture.op, signal: controller.signal }, `${registry.host}/app`);
    const second = fixture.images.pull(fixture.op, `${registry.host}/app`);
    controller.abort(new GantryError('Canceled', 'the client went away'));
    await assert.rejects(first, failsWith('Canceled', /went away/));
    open.resolve(undefined);
    assert.equal((await second).id, image.id);
  });

  it('stops at once when its only caller gives up, and leaves nothing', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf(randomBytes(50_000))]);
    registry.push('app', image, 'latest');
    const stuck = Promise.withResolvers<undefined>();
    registry.intercept = ({ path }, response) => {
      if (!path.includes('/blobs/') || path.includes(image.config.digest)) return false;
      response.writeHead(200, { 'content-length': 50_000 });
      response.write('x');
      stuck.resolve(undefined);
      return true;
    };
    const controller = new AbortController();
    const pull = fixture.images.pull({ ...fixture.op, signal: controller.signal }, `${registry.host}/app`);
    await stuck.promise;
    controller.abort(new GantryError('Canceled', 'the client went away'));
    await assert.rejects(pull, failsWith('Canceled', /went away/));
    registry.intercept = undefined;
    // Waits for the aborted one to be over before it starts anew.
    await fixture.images.pull(fixture.op, `${registry.host}/app`);
    assert.deepEqual(await fixture.leftovers(), []);
  });

  it("goes on when its caller's deadline has passed; who asks again joins it, and who removes the name ends it", async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const [one, two] = [imageOf([await layerOf('one')]), imageOf([await layerOf('two')])];
    registry.push('one', one, 'latest');
    registry.push('two', two, 'latest');
    const held = { gate: Promise.withResolvers<undefined>(), reached: Promise.withResolvers<undefined>() };
    fixture.layers.gate = () => {
      held.reached.resolve(undefined);
      return held.gate.promise;
    };
    const pullUntilDeadline = async (name: string): Promise<void> => {
      held.reached = Promise.withResolvers<undefined>();
      const controller = new AbortController();
      const pull = fixture.images.pull({ ...fixture.op, signal: controller.signal }, `${registry.host}/${name}`);
      await held.reached.promise;
      controller.abort(new GantryError('DeadlineExceeded', "the caller's deadline has passed"));
      await assert.rejects(pull, failsWith('DeadlineExceeded', /deadline has passed/));
    };
    await pullUntilDeadline('one');
    const retry = fixture.images.pull(fixture.op, `${registry.host}/one`);
    held.gate.resolve(undefined);
    assert.equal((await retry).id, one.id);
    assert.equal(registry.count('one/manifests/'), 1, 'the retry has joined');
    assert.equal(registry.count(one.layers[0]?.digest ?? ''), 1);

    // Nobody asks again: it is there all the same.
    held.gate = Promise.withResolvers<undefined>();
    await pullUntilDeadline('two');
    held.gate.resolve(undefined);
    while (fixture.images.resolve(two.id) === undefined) await systemClock.sleep(5);
    await fixture.images.removeWhole(fixture.op, two.id);

    // What is being removed is not brought back by a pull that nobody waits for.
    held.gate = Promise.withResolvers<undefined>();
    await pullUntilDeadline('two');
    const gone = await fixture.images.removeWhole(fixture.op, `${registry.host}/two`);
    assert.equal(gone.kind, 'absent');
    held.gate.resolve(undefined);
    assert.equal((await fixture.images.pull(fixture.op, `${registry.host}/two`)).id, two.id);
    assert.equal(registry.count('two/manifests/'), 3, 'the ended one was not joined');
    assert.deepEqual(await fixture.leftovers(), []);
  });

  it('asks one question for an image that is here, and nothing of it is believed of an archive', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const image = imageOf([await layerOf('one')]);
    registry.push('app', image, 'v1', 'v2');
    const { images, op } = fixture;
    const first = await images.pull(op, `${registry.host}/app:v1`);
    const asked = registry.requests.length;
    assert.deepEqual(await images.pull(op, `${registry.host}/app:v1`), first);
    const other = await images.pull(op, `${registry.host}/app:v2`);
    assert.deepEqual(other.repoTags, [`${registry.host}/app:v1`, `${registry.host}/app:v2`]);
    assert.equal(registry.requests.length, asked + 2);
    await fixture.reopen();
    assert.deepEqual(fixture.images.list(), [other], 'the second name is on the disk, too');
    await assert.rejects(
      fixture.images.tag(op, other.id, `${registry.host}/app@sha256:${'1'.repeat(64)}`),
      failsWith('InvalidArgument', /a digest says what an image is/),
    );
    // Removed, it is brought in anew.
    await fixture.images.pull(op, `${registry.host}/app:v1`);
    await fixture.images.removeWhole(op, other.id);
    assert.equal((await fixture.images.pull(op, `${registry.host}/app:v1`)).id, image.id);
    assert.equal(registry.count(image.layers[0]?.digest ?? ''), 2);
  });

  it('goes on by range where connections break, and still verifies the whole', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const layer = await layerOf(randomBytes(300_000), 'none');
    const image = imageOf([layer]);
    registry.push('app', image, 'latest');
    registry.fail(layer.digest, { kind: 'truncate' }, 3);
    assert.equal((await fixture.images.pull(fixture.op, `${registry.host}/app`)).id, image.id);
    const ranges = registry.requests
      .filter(({ path }) => path.includes(layer.digest))
      .map(({ headers }) => headers.range);
    assert.equal(ranges.length, 4);
    assert.equal(ranges[0], undefined);
    for (const range of ranges.slice(1)) assert.match(range ?? '', /^bytes=[1-9][0-9]*-$/);
  });

  it('starts over where the registry knows no ranges', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    registry.ranges = false;
    const layer = await layerOf(randomBytes(200_000), 'none');
    registry.push('app', imageOf([layer]), 'latest');
    registry.fail(layer.digest, { kind: 'truncate' }, 1);
    await fixture.images.pull(fixture.op, `${registry.host}/app`);
    assert.equal(registry.count(layer.digest), 2);
  });

  it('tries again after 503, 429 with Retry-After, and a reset', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    registry.push('app', imageOf([await layerOf('one')]), 'latest');
    registry.fail('/manifests/', { kind: 'status', status: 503 }, 1);
    registry.fail('/manifests/', { kind: 'status', status: 429, retryAfterSeconds: 0 }, 1);
    registry.fail('/manifests/', { kind: 'reset' }, 1);
    await fixture.images.pull(fixture.op, `${registry.host}/app`);
    assert.equal(registry.count('/manifests/'), 4);
  });
});

describe('a pull that can not work', () => {
  const layer = layerOf(randomBytes(20_000), 'gzip');
  const cases: readonly {
    title: string;
    expected: ReturnType<typeof failsWith>;
    prepare: (registry: TestRegistry) => Promise<void> | void;
    tries?: number;
  }[] = [
    {
      title: 'the image is not there',
      expected: failsWith(
        'NotFound',
        /^pull 127\.0\.0\.1:\d+\/app:latest: registry .*manifest latest is not there \(404\): MANIFEST_UNKNOWN/,
      ),
      prepare: () => undefined,
    },
    {
      title: 'access is denied',
      expected: failsWith('PermissionDenied', /access denied \(403\)/),
      prepare: (registry) => {
        registry.fail('/', { kind: 'status', status: 403 });
      },
    },
    {
      title: 'it needs credentials and there are none',
      expected: failsWith('Unauthenticated', /needs credentials, and there are none/),
      prepare: (registry) => {
        registry.auth = { scheme: 'basic', login: 'a:b', token: '' };
      },
    },
    {
      title: 'the registry is broken for good',
      expected: failsWith('Unavailable', /answered 500/),
      prepare: (registry) => {
        registry.fail('/', { kind: 'status', status: 500 });
      },
    },
    {
      title: 'too many requests were made',
      expected: failsWith('ResourceExhausted', /too many requests \(429\)/),
      prepare: (registry) => {
        registry.fail('/', { kind: 'status', status: 429, retryAfterSeconds: 3600 });
      },
    },
    {
      title: 'a layer has another content',
      expected: failsWith('DataLoss', /wrong digest/),
      prepare: async (registry) => {
        const one = await layer;
        registry.push('app', imageOf([one]), 'latest');
        registry.fail(one.digest, { kind: 'wrong-bytes' });
      },
    },
    {
      title: 'the configuration has another content',
      expected: failsWith('DataLoss', /configuration .*wrong digest/),
      prepare: async (registry) => {
        const image = imageOf([await layer]);
        registry.push('app', image, 'latest');
        registry.fail(image.config.digest, { kind: 'wrong-bytes' });
      },
    },
    {
      title: 'the manifest is not what the registry says it is',
      expected: failsWith('DataLoss', /manifest .*wrong digest/),
      prepare: async (registry) => {
        const image = imageOf([await layer]);
        registry.pushManifest('app', { ...image.manifest, digest: `sha256:${'0'.repeat(64)}` }, 'latest');
      },
    },
    {
      title: 'a layer is truncated again and again',
      expected: failsWith('DataLoss', /truncated: 100 of \d+ bytes/),
      prepare: async (registry) => {
        registry.ranges = false;
        const one = await layer;
        registry.push('app', imageOf([one]), 'latest');
        registry.intercept = ({ path }, response) => {
          if (!path.includes(one.digest)) return false;
          // Chunked, so that its end looks like an end.
          response.writeHead(200);
          response.end(one.data.subarray(0, 100));
          return true;
        };
      },
    },
    {
      title: 'a layer is longer than its manifest says',
      expected: failsWith('DataLoss', /longer than its manifest says/),
      prepare: async (registry) => {
        const one = await layer;
        registry.push('app', imageOf([one]), 'latest');
        registry.pushBlob({ digest: one.digest, data: Buffer.concat([one.data, Buffer.alloc(10)]) });
      },
    },
    {
      title: 'a layer is corrupt gzip under its right digest',
      expected: failsWith('DataLoss', /layer sha256:.*corrupt gzip/),
      prepare: async (registry) => {
        const one = await layer;
        const bad = damagedLayer(one, Buffer.from(one.data).fill(0, 5000, 6000));
        registry.push('app', imageOf([bad]), 'latest');
      },
    },
    {
      title: 'a layer is truncated zstd under its right digest',
      expected: failsWith('DataLoss', /layer sha256:.*corrupt zstd.*ends too early/),
      prepare: async (registry) => {
        const one = await layerOf(randomBytes(20_000), 'zstd');
        registry.push('app', imageOf([damagedLayer(one, one.data.subarray(0, 9000))]), 'latest');
      },
    },
    {
      title: 'a layer is not what its type says at all',
      expected: failsWith('DataLoss', /corrupt gzip data: it does not even begin as such/),
      prepare: async (registry) => {
        const one = await layer;
        registry.push('app', imageOf([damagedLayer(one, 'hello')]), 'latest');
      },
    },
    {
      title: 'a layer unpacks to something else',
      expected: failsWith('DataLoss', /it unpacks to sha256:/),
      prepare: async (registry) => {
        const [one, other] = [await layer, await layerOf('other')];
        registry.push('app', imageOf([{ ...one, diffId: other.diffId }]), 'latest');
      },
    },
    {
      title: 'it is for other platforms only (index)',
      expected: failsWith('NotFound', /no image for linux\/.*: it is there for linux\/s390x, windows\/amd64/),
      prepare: async (registry) => {
        const image = imageOf([await layer]);
        registry.pushManifest(
          'app',
          indexOf([
            { image, platform: { os: 'windows', architecture: 'amd64' } },
            { image, platform: { os: 'linux', architecture: 's390x' } },
            { image, platform: { os: 'unknown', architecture: 'unknown' } },
          ]),
          'latest',
        );
      },
    },
    {
      title: 'it is for another platform only (configuration)',
      expected: failsWith('NotFound', /it is there for linux\/ppc64le/),
      prepare: async (registry) => {
        registry.push('app', imageOf([await layer], { platform: { os: 'linux', architecture: 'ppc64le' } }), 'latest');
      },
    },
    {
      title: 'it is a chart',
      expected: failsWith('InvalidArgument', /not an image: .*helm/),
      prepare: (registry) => {
        const config = {
          mediaType: 'application/vnd.cncf.helm.config.v1+json',
          digest: `sha256:${'0'.repeat(64)}`,
          size: 2,
        };
        const mediaType = 'application/vnd.oci.image.manifest.v1+json';
        registry.pushManifest(
          'app',
          blobOf(mediaType, JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [] })),
          'latest',
        );
      },
    },
    {
      title: 'it is a web page',
      expected: failsWith('InvalidArgument', /not an image: its manifest is not JSON/),
      prepare: (registry) => {
        registry.pushManifest('app', blobOf('text/html', '<html>'), 'latest');
      },
    },
    {
      title: 'it is schema 1',
      expected: failsWith('NotImplemented', /schema 1, which is obsolete/),
      prepare: (registry) => {
        const mediaType = 'application/vnd.docker.distribution.manifest.v1+prettyjws';
        registry.pushManifest('app', blobOf(mediaType, JSON.stringify({ schemaVersion: 1, name: 'app' })), 'latest');
      },
    },
    {
      title: 'it is a manifest and an index at once',
      expected: failsWith('InvalidArgument', /also an index/),
      prepare: async (registry) => {
        const image = imageOf([await layer]);
        const both = { ...(JSON.parse(image.manifest.data.toString()) as object), manifests: [] };
        registry.pushManifest('app', blobOf(image.manifest.mediaType, JSON.stringify(both)), 'latest');
      },
    },
    {
      title: 'its manifest is endless',
      expected: failsWith('DataLoss', /longer than/),
      prepare: (registry) => {
        registry.intercept = (_request, response) => {
          response.writeHead(200);
          response.end(Buffer.alloc(5 * 1024 * 1024, 0x20));
          return true;
        };
      },
    },
  ];
  for (const { title, expected, prepare } of cases) {
    it(title, async () => {
      await using fixture = await Fixture.open();
      await using registry = await TestRegistry.start();
      await prepare(registry);
      await assert.rejects(fixture.images.pull(fixture.op, `${registry.host}/app`), expected);
      assert.deepEqual(fixture.images.list(), []);
      assert.deepEqual(await fixture.leftovers(), []);
    });
  }

  it('nobody answers, or no such host', async () => {
    await using fixture = await Fixture.open();
    const registry = await TestRegistry.start();
    const { host } = registry;
    await registry[Symbol.asyncDispose]();
    await assert.rejects(
      fixture.images.pull(fixture.op, `${host}/app`),
      failsWith('Unavailable', /nobody answers at this address/),
    );
    await assert.rejects(fixture.images.pull(fixture.op, 'no-such-host.invalid/app'), (error) => {
      // A machine without DNS can not tell that the host is unknown.
      assert.equal(kindOf(error), 'Unavailable');
      assert.match(String(error), /no-such-host\.invalid.*(unknown host|cannot be looked up)/);
      return true;
    });
  });

  it('does not hand out a layer that the image only claims to have', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    const secret = await layerOf('secret');
    registry.push('private', imageOf([secret]), 'latest');
    await fixture.images.pull(fixture.op, `${registry.host}/private`);
    const own = await layerOf('own');
    registry.push('thief', imageOf([{ ...own, diffId: secret.diffId }]), 'latest');
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/thief`),
      failsWith('DataLoss', /unpacks to/),
    );
  });

  it('accepts another form of a layer that is here without unpacking it again', async () => {
    await using fixture = await Fixture.open();
    await using registry = await TestRegistry.start();
    registry.push('gz', imageOf([await layerOf('same', 'gzip')]), 'latest');
    registry.push('zst', imageOf([await layerOf('same', 'zstd')]), 'latest');
    await fixture.images.pull(fixture.op, `${registry.host}/gz`);
    await fixture.images.pull(fixture.op, `${registry.host}/zst`);
    assert.equal(fixture.layers.unpacked.length, 1);
  });
});

it('a redirect to another host takes no credentials along', async () => {
  await using fixture = await Fixture.open();
  await using registry = await TestRegistry.start();
  await using storage = await TestRegistry.start();
  const layer = await layerOf('one');
  registry.push('app', imageOf([layer]), 'latest');
  registry.auth = { scheme: 'bearer', login: 'user:password', token: 'the-token' };
  const location = `http://${storage.host}/v2/elsewhere/blobs/${layer.digest}?signature=1`;
  registry.intercept = ({ path, headers }, response) => {
    if (!path.includes(layer.digest) || headers.authorization === undefined) return false;
    response.writeHead(307, { location }).end();
    return true;
  };
  storage.pushBlob(layer);
  await fixture.images.pull(fixture.op, `${registry.host}/app`, { username: 'user', password: 'password' });
  assert.equal(storage.requests.length, 1);
  assert.equal(storage.requests[0]?.headers.authorization, undefined);
});
