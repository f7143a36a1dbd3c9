import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { AuthFields } from '../../../src/runtime/image/auth/credentials.ts';
import { failsWith, Fixture } from './fixture.ts';
import { TestRegistry, type RegistryAuth } from '../../support/registry.ts';
import { imageOf, layerOf } from '../../support/images.ts';

const PASSWORD = 'p@ss:word-Zq9';
const LOGIN = `user:${PASSWORD}`;
const AUTH = Buffer.from(LOGIN).toString('base64');
const TOKEN = 'token-Xw7';
const REFRESH = 'refresh-Kd3';
const BASIC: RegistryAuth = { scheme: 'basic', login: LOGIN, token: TOKEN };
const BEARER: RegistryAuth = { scheme: 'bearer', login: LOGIN, token: TOKEN, refreshToken: REFRESH };

async function serve(auth: RegistryAuth): Promise<TestRegistry> {
  const registry = await TestRegistry.start();
  registry.push('app', imageOf([await layerOf('one'), await layerOf('two')]), 'latest');
  registry.auth = auth;
  return registry;
}

/** Nothing that anybody reads may hold a secret. */
function assertNoSecrets(...texts: readonly string[]): void {
  for (const text of texts) {
    for (const secret of [PASSWORD, AUTH, TOKEN, REFRESH, encodeURIComponent(PASSWORD)]) {
      assert.ok(!text.includes(secret), `a secret is in: ${text}`);
    }
  }
}

describe('credentials of the caller (CRI AuthConfig)', () => {
  const working: readonly { title: string; auth: RegistryAuth; fields?: AuthFields }[] = [
    { title: 'basic', auth: BASIC, fields: { username: 'user', password: PASSWORD } },
    { title: 'basic as auth', auth: BASIC, fields: { auth: AUTH } },
    { title: 'token with a login', auth: BEARER, fields: { username: 'user', password: PASSWORD } },
    { title: 'token with an identity token', auth: BEARER, fields: { identityToken: REFRESH } },
    { title: 'token with <token> as the user', auth: BEARER, fields: { username: '<token>', password: REFRESH } },
    { title: 'a registry token as it is', auth: BEARER, fields: { registryToken: TOKEN } },
    { title: 'an anonymous token', auth: { scheme: 'bearer', token: TOKEN } },
  ];
  for (const { title, auth, fields } of working) {
    it(title, async () => {
      await using fixture = await Fixture.open();
      await using registry = await serve(auth);
      await fixture.images.pull(fixture.op, `${registry.host}/app`, fields);
      // One challenge answers for the whole pull.
      assert.equal(registry.requests.filter(({ path }) => path === '/token').length <= 1, true);
      if (fields?.identityToken !== undefined) {
        const asked = registry.requests.find(({ path }) => path === '/token');
        assert.equal(asked?.method, 'POST');
        assert.equal(asked.query.size, 0);
      }
      assertNoSecrets(...fixture.logged, ...registry.requests.map(({ path, query }) => `${path}?${String(query)}`));
    });
  }

  it('are used for the server that they name', async () => {
    await using fixture = await Fixture.open();
    await using registry = await serve(BASIC);
    const login = { username: 'user', password: PASSWORD };
    await fixture.images.pull(fixture.op, `${registry.host}/app`, {
      ...login,
      serverAddress: `http://${registry.host}/v2/`,
    });
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/app`, { ...login, serverAddress: 'https://elsewhere.example' }),
      failsWith('Unauthenticated', /there are none for it/),
    );
  });

  it('are refused in words, without the secret', async () => {
    await using fixture = await Fixture.open();
    for (const auth of [BASIC, BEARER]) {
      await using registry = await serve(auth);
      await assert.rejects(
        fixture.images.pull(fixture.op, `${registry.host}/app`, { username: 'user', password: `${PASSWORD}-wrong` }),
        (error) => {
          assertNoSecrets(String(error), JSON.stringify(error));
          return failsWith('Unauthenticated', /refuse/)(error);
        },
      );
    }
    await assert.rejects(
      fixture.images.pull(fixture.op, '127.0.0.1:1/app', {
        auth: Buffer.from(PASSWORD.replace(':', '')).toString('base64'),
      }),
      failsWith('InvalidArgument', /not base64 of username:password/),
    );
    assertNoSecrets(...fixture.logged);
  });

  it('are taken out of what a server echoes', async () => {
    await using fixture = await Fixture.open();
    await using registry = await serve(BASIC);
    registry.intercept = ({ headers }, response) => {
      if (headers.authorization === undefined) return false;
      const message = `got ${headers.authorization} for ${PASSWORD}\u001b[2J`;
      response.writeHead(403).end(JSON.stringify({ errors: [{ code: 'DENIED', message }] }));
      return true;
    };
    await assert.rejects(fixture.images.pull(fixture.op, `${registry.host}/app`, { auth: AUTH }), (error) => {
      assertNoSecrets(String(error));
      assert.ok(!String(error).includes('\u001b'));
      return failsWith('PermissionDenied', /DENIED got Basic <secret>/)(error);
    });
  });

  it('get a fresh token when one runs out in the middle', async () => {
    await using fixture = await Fixture.open();
    await using registry = await serve(BEARER);
    let changed = false;
    registry.intercept = ({ path }) => {
      if (path.includes('/blobs/') && !changed) {
        changed = true;
        registry.auth = { ...BEARER, token: `${TOKEN}2` };
      }
      return false;
    };
    await fixture.images.pull(fixture.op, `${registry.host}/app`, { auth: AUTH });
    assert.ok(registry.count('/token') >= 2);
  });
});

describe('credentials of files', () => {
  it('come from docker config.json and containers auth.json', async () => {
    await using fixture = await Fixture.open();
    await using registry = await serve(BASIC);
    const file = join(fixture.dir, 'auth.json');
    const other = { auth: Buffer.from('x:y').toString('base64') };
    for (const auths of [
      { [registry.host]: { auth: AUTH } },
      { [`https://${registry.host}/v1/`]: { auth: AUTH } },
      { [registry.host]: other, [`${registry.host}/app`]: { auth: AUTH } },
      { [registry.host]: { username: 'user', password: PASSWORD } },
    ]) {
      await writeFile(file, JSON.stringify({ auths }));
      await fixture.images.pull(fixture.op, `${registry.host}/app`);
    }
    await writeFile(file, JSON.stringify({ auths: { [`${registry.host}/other`]: { auth: AUTH } } }));
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/app`),
      failsWith('Unauthenticated', /none for it/),
    );
    await writeFile(file, `{ "auths": ${PASSWORD}`);
    await assert.rejects(
      fixture.images.pull(fixture.op, `${registry.host}/app`),
      failsWith('Unauthenticated', /none for it/),
    );
    assert.ok(fixture.logged.some((line) => line.startsWith('credential file is not JSON')));
    assertNoSecrets(...fixture.logged);
  });

  it('come from a credential helper', async () => {
    await using fixture = await Fixture.open();
    await using registry = await serve(BASIC);
    const bin = join(fixture.dir, 'bin');
    await mkdir(bin);
    const helper = join(bin, 'docker-credential-gantrytest');
    await writeFile(
      helper,
      `#!/bin/sh\nread server\n[ "$1 $server" = "get ${registry.host}" ] || { echo credentials not found in native keychain; exit 1; }\n` +
        `echo '${JSON.stringify({ ServerURL: '', Username: 'user', Secret: PASSWORD })}'\n`,
    );
    await chmod(helper, 0o755);
    const path = process.env['PATH'];
    process.env['PATH'] = `${bin}:${path ?? ''}`;
    try {
      const file = join(fixture.dir, 'auth.json');
      await writeFile(file, JSON.stringify({ credHelpers: { [registry.host]: 'gantrytest' } }));
      await fixture.images.pull(fixture.op, `${registry.host}/app`);
      await writeFile(file, JSON.stringify({ credsStore: 'gantrytest' }));
      await fixture.images.pull(fixture.op, `${registry.host}/app`);
      await writeFile(file, JSON.stringify({ credsStore: '../../bin/sh' }));
      await assert.rejects(
        fixture.images.pull(fixture.op, `${registry.host}/app`),
        failsWith('Unauthenticated', /none for it/),
      );
      await writeFile(file, JSON.stringify({ credsStore: 'no-such-helper' }));
      await assert.rejects(
        fixture.images.pull(fixture.op, `${registry.host}/app`),
        failsWith('Unauthenticated', /none for it/),
      );
    } finally {
      process.env['PATH'] = path;
    }
    assertNoSecrets(...fixture.logged);
  });
});
