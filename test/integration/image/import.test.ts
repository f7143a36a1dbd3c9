import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { failsWith, Fixture } from './fixture.ts';
import { descriptorOf, hostPlatform, imageOf, indexOf, layerOf, type Image } from '../../support/images.ts';
import { tarOf } from '../../support/tar.ts';

type Files = Record<string, string | Buffer>;

function dockerFiles(images: readonly { image: Image; tags: readonly string[] | null }[]): Files {
  const files: Files = {};
  const list = images.map(({ image, tags }) => {
    const config = `${image.config.digest.slice(7)}.json`;
    files[config] = image.config.data;
    const layers = image.layers.map((layer) => {
      files[`${layer.diffId.slice(7)}/layer.tar`] = layer.tar;
      return `${layer.diffId.slice(7)}/layer.tar`;
    });
    return { Config: config, RepoTags: tags, Layers: layers };
  });
  return { ...files, 'manifest.json': JSON.stringify(list) };
}

function layoutFiles(index: Buffer, images: readonly Image[]): Files {
  const files: Files = { 'oci-layout': '{"imageLayoutVersion":"1.0.0"}', 'index.json': index };
  for (const image of images) {
    for (const blob of [image.manifest, image.config, ...image.layers]) {
      files[`blobs/sha256/${blob.digest.slice(7)}`] = blob.data;
    }
  }
  return files;
}

function named(image: Image, name: string): { image: Image; annotations: Record<string, string> } {
  return { image, annotations: { 'org.opencontainers.image.ref.name': name } };
}

async function put(fixture: Fixture, name: string, data: string | Buffer): Promise<string> {
  const path = join(fixture.dir, name);
  await writeFile(path, data);
  return path;
}

async function putTree(fixture: Fixture, files: Files): Promise<string> {
  const dir = join(fixture.dir, 'layout');
  for (const [name, data] of Object.entries(files)) {
    await mkdir(join(dir, name, '..'), { recursive: true });
    await writeFile(join(dir, name), data);
  }
  return dir;
}

describe('import of docker save', () => {
  it('takes several images and their tags, plain or compressed', async () => {
    const one = imageOf([await layerOf('one'), await layerOf('base')]);
    const two = imageOf([await layerOf('base')]);
    const archive = await tarOf(
      dockerFiles([
        { image: one, tags: ['app:1', 'app:2'] },
        { image: two, tags: null },
      ]),
    );
    for (const data of [archive, gzipSync(archive), zstdCompressSync(archive)]) {
      await using fixture = await Fixture.open();
      const path = await put(fixture, 'images', data);
      const imported = await fixture.images.import(fixture.op, { kind: 'archive', path });
      assert.deepEqual(
        imported.map(({ image, names }) => [image.id, names]),
        [
          [one.id, ['docker.io/library/app:1', 'docker.io/library/app:2']],
          [two.id, []],
        ],
      );
      assert.equal(fixture.layers.unpacked.length, 2);
      assert.equal(fixture.images.resolve('app:2')?.id, one.id);
      assert.deepEqual(await fixture.leftovers(), []);
    }
  });

  it('follows links among layers and takes another name', async () => {
    await using fixture = await Fixture.open();
    const image = imageOf([await layerOf('one')]);
    const path = await put(fixture, 'image.tar', await tarOf(dockerFiles([{ image, tags: ['x:1'] }])));
    await fixture.images.import(fixture.op, { kind: 'archive', path, name: 'my/app' });
    assert.deepEqual(fixture.images.resolve(image.id)?.repoTags, ['docker.io/my/app:latest']);
  });

  it('refuses what is damaged or wrong, and keeps nothing of it', async () => {
    await using fixture = await Fixture.open();
    const layer = await layerOf('x'.repeat(5000));
    const image = imageOf([layer]);
    const files = dockerFiles([{ image, tags: ['x:1'] }]);
    const good = await tarOf(files);
    const layerName = `${layer.diffId.slice(7)}/layer.tar`;
    const configName = `${image.config.digest.slice(7)}.json`;
    const other = await layerOf('other');
    const cases: readonly [string, string | Buffer, ReturnType<typeof failsWith>][] = [
      ['text', 'hello', failsWith('InvalidArgument', /not an image: it is no tar archive/)],
      ['empty', '', failsWith('InvalidArgument', /not an image/)],
      ['gzipped text', gzipSync('hello'), failsWith('InvalidArgument', /no tar archive in the gzip data/)],
      [
        'truncated gzip',
        gzipSync(good).subarray(0, 200),
        failsWith('DataLoss', /corrupt gzip data: it ends too early/),
      ],
      ['truncated tar', good.subarray(0, 1500), failsWith('DataLoss', /damaged tar archive: it ends too early/)],
      [
        'tar of something',
        await tarOf({ 'etc/passwd': 'root' }),
        failsWith('InvalidArgument', /neither manifest\.json nor index\.json/),
      ],
      ['bad manifest', await tarOf({ 'manifest.json': '{}' }), failsWith('InvalidArgument', /lists no images/)],
      [
        'no layer',
        await tarOf({
          ...files,
          [layerName]: '',
          'manifest.json': String(files['manifest.json']).replace('layer.tar', 'nope'),
        }),
        failsWith('NotFound', /nope is missing/),
      ],
      ['other layer', await tarOf({ ...files, [layerName]: other.tar }), failsWith('DataLoss', /wrong digest/)],
      [
        'other config',
        await tarOf({ ...files, [configName]: '{}' }),
        failsWith('DataLoss', /configuration .*wrong digest/),
      ],
    ];
    for (const [title, data, expected] of cases) {
      const path = await put(fixture, 'bad', data);
      await assert.rejects(fixture.images.import(fixture.op, { kind: 'archive', path }), expected, title);
    }
    const alien = imageOf([layer], { platform: { os: 'linux', architecture: 's390x' } });
    const path = await put(fixture, 'alien', await tarOf(dockerFiles([{ image: alien, tags: ['x:1'] }])));
    await assert.rejects(
      fixture.images.import(fixture.op, { kind: 'archive', path }),
      failsWith('NotFound', /linux\/s390x/),
    );
    await assert.rejects(
      fixture.images.import(fixture.op, { kind: 'archive', path: join(fixture.dir, 'absent') }),
      failsWith('NotFound', /no such file/),
    );
    const pipe = join(fixture.dir, 'index.json');
    execFileSync('mkfifo', [pipe]);
    for (const [place, words] of [
      [pipe, /index\.json: is neither a file nor a folder/],
      ['/dev/null', /is neither a file nor a folder/],
      [fixture.dir, /index\.json is no regular file|neither manifest\.json nor index\.json/],
    ] as const) {
      await assert.rejects(
        fixture.images.import(fixture.op, { kind: 'archive', path: place }),
        failsWith('InvalidArgument', words),
      );
    }
    assert.deepEqual(fixture.images.list(), []);
    assert.deepEqual(await fixture.leftovers(), []);
  });
});

describe('import of an OCI layout', () => {
  it('as a folder and as an archive, by reference name', async () => {
    const [one, two] = [imageOf([await layerOf('one', 'zstd')]), imageOf([await layerOf('two')], { docker: true })];
    const index = indexOf([named(one, 'team/one:1'), named(two, 'registry.example/two:2')]);
    const files = layoutFiles(index.data, [one, two]);
    for (const form of ['folder', 'archive']) {
      await using fixture = await Fixture.open();
      const path =
        form === 'folder' ? await putTree(fixture, files) : await put(fixture, 'oci.tar', await tarOf(files));
      const imported = await fixture.images.import(fixture.op, { kind: 'archive', path });
      assert.deepEqual(
        imported.map(({ names }) => names),
        [['docker.io/team/one:1'], ['registry.example/two:2']],
      );
      assert.deepEqual(fixture.images.resolve(two.id)?.repoDigests, [`registry.example/two@${two.manifest.digest}`]);
    }
  });

  it('chooses by platform within one name, and needs a repository for bare tags', async () => {
    await using fixture = await Fixture.open();
    const ours = imageOf([await layerOf('ours')]);
    const alien = imageOf([await layerOf('alien')], { platform: { os: 'linux', architecture: 's390x' } });
    const index = indexOf([
      { ...named(alien, 'v1'), platform: { os: 'linux', architecture: 's390x' } },
      { ...named(ours, 'v1'), platform: hostPlatform() },
      named(alien, 'v2'),
      named(ours, 'v3'),
    ]);
    const path = await putTree(fixture, layoutFiles(index.data, [ours, alien]));
    const unnamed = await fixture.images.import(fixture.op, { kind: 'archive', path });
    assert.deepEqual(
      unnamed.map(({ names }) => names),
      [[], []],
    );
    await fixture.images.import(fixture.op, { kind: 'archive', path, name: 'team/app' });
    assert.deepEqual(fixture.images.resolve(ours.id)?.repoTags, ['docker.io/team/app:v1', 'docker.io/team/app:v3']);
    assert.ok(fixture.logged.some((line) => line.includes('another platform')));
  });

  it('verifies every blob', async () => {
    await using fixture = await Fixture.open();
    const layer = await layerOf('one');
    const image = imageOf([layer]);
    const blob = `blobs/sha256/${layer.digest.slice(7)}`;
    const files = layoutFiles(indexOf([named(image, 'a/b:1')]).data, [image]);
    const load = async (changed: Files): Promise<unknown> => {
      const path = await put(fixture, 'oci.tar', await tarOf({ ...files, ...changed }));
      return await fixture.images.import(fixture.op, { kind: 'archive', path });
    };
    await assert.rejects(load({ [blob]: Buffer.alloc(layer.size, 1) }), failsWith('DataLoss', /wrong digest/));
    await assert.rejects(load({ [blob]: layer.data.subarray(1) }), failsWith('DataLoss', /truncated: \d+ of \d+/));
    await assert.rejects(
      load({ [`blobs/sha256/${image.config.digest.slice(7)}`]: '{}' }),
      failsWith('DataLoss', /2 bytes instead/),
    );
    await assert.rejects(load({ 'index.json': '{"manifests":[]}' }), failsWith('InvalidArgument', /lists no images/));
    const escaping = { ...descriptorOf(image.manifest), digest: 'sha256:../../../etc/passwd' };
    await assert.rejects(
      load({ 'index.json': JSON.stringify({ manifests: [escaping] }) }),
      failsWith('InvalidArgument', /no valid digest/),
    );
    assert.deepEqual(fixture.images.list(), []);
  });
});

describe('import of a root file system', () => {
  it('makes an image of one layer, the same one each time', async () => {
    await using fixture = await Fixture.open();
    const tar = await tarOf({ 'bin/sh': 'x' });
    const settings = {
      entrypoint: ['/bin/sh', '-c'],
      cmd: ['id'],
      env: ['A=b'],
      workdir: '/w',
      user: '1:2',
      labels: { a: 'b' },
    };
    const ids = new Set<string>();
    for (const [name, data] of Object.entries({ plain: tar, gz: gzipSync(tar), zst: zstdCompressSync(tar) })) {
      const path = await put(fixture, name, data);
      const [imported] = await fixture.images.import(fixture.op, {
        kind: 'rootfs',
        path,
        name: 'local/tool:1',
        settings,
      });
      ids.add(imported?.image.id ?? '');
    }
    assert.equal(ids.size, 1);
    const record = fixture.images.resolve('local/tool:1');
    assert.deepEqual(record?.config.config, {
      User: '1:2',
      Env: ['A=b'],
      Entrypoint: ['/bin/sh', '-c'],
      Cmd: ['id'],
      WorkingDir: '/w',
      Labels: { a: 'b' },
    });
    assert.equal(fixture.layers.layers.size, 1);
    await fixture.images.remove(fixture.op, 'local/tool:1');
    assert.equal(fixture.layers.layers.size, 0);
  });

  it('refuses a name with a digest and a path that is not there', async () => {
    await using fixture = await Fixture.open();
    const path = join(fixture.dir, 'absent');
    const name = `a@sha256:${'0'.repeat(64)}`;
    await assert.rejects(
      fixture.images.import(fixture.op, { kind: 'rootfs', path, name }),
      failsWith('InvalidArgument', /a name with a tag/),
    );
    await assert.rejects(
      fixture.images.import(fixture.op, { kind: 'rootfs', path, name: 'a' }),
      failsWith('NotFound', /no such file/),
    );
  });
});
