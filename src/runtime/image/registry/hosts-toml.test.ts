import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { kindOf } from '../../../lib/errors.ts';
import { parseHostsToml } from './hosts-toml.ts';

describe('parseHostsToml', () => {
  it('reads everything that containerd documents', () => {
    const unknown: string[] = [];
    const file = parseHostsToml(
      `server = "https://upstream.example"
       ca = "/etc/ca.pem"
       [host."https://one.example"]
         capabilities = ["pull"]
         ca = ["a.pem", "b.pem"]
         client = [["cert.pem", "key.pem"], ["both.pem", ""], "single.pem"]
         skip_verify = true
         [host."https://one.example".header]
           X-One = "1"
           X-Two = ["2", "3"]
       [host."two.example:5000"]
         override_path = true
         client = "client.pem"
         dail_timeout = "1s"`,
      'hosts.toml',
      (key) => {
        unknown.push(key);
      },
    );
    assert.equal(file.server?.server, 'https://upstream.example');
    assert.deepEqual(file.server.ca, ['/etc/ca.pem']);
    assert.deepEqual(unknown, ['host."two.example:5000".dail_timeout']);
    assert.deepEqual(file.mirrors, [
      {
        server: 'https://one.example',
        canPull: true,
        canResolve: false,
        skipVerify: true,
        overridePath: false,
        ca: ['a.pem', 'b.pem'],
        client: [{ cert: 'cert.pem', key: 'key.pem' }, { cert: 'both.pem' }, { cert: 'single.pem' }],
        headers: { 'x-one': '1', 'x-two': '2, 3' },
      },
      {
        server: 'two.example:5000',
        canPull: true,
        canResolve: true,
        skipVerify: false,
        overridePath: true,
        ca: [],
        client: [{ cert: 'client.pem' }],
        headers: {},
      },
    ]);
  });

  it('keeps the settings of a file without server for the registry itself', () => {
    const file = parseHostsToml('skip_verify = true', 'hosts.toml');
    assert.equal(file.server, undefined);
    assert.equal(file.upstreamDefaults.skipVerify, true);
    assert.deepEqual(file.mirrors, []);
  });

  const refused: readonly (readonly [string, RegExp])[] = [
    ['# mirrors\n\nserver = [', /^hosts\.toml:3: [^\n]+$/],
    ['server = 1', /^hosts\.toml:1: server is not text/],
    ['host = "x"', /host is not a table/],
    ['[host]\n"https://a" = 1', /host\."https:\/\/a" is not a table/],
    ['capabilities = "pull"', /capabilities is not a list of texts/],
    ['ca = "x"\n[host."a"]\n\n  ca = 1 # no', /^hosts\.toml:4: host\."a"\.ca is not a file name/],
    ["[host.'a']\nca = 1", /^hosts\.toml:2: host\."a"\.ca is not a file name/],
    ['host.a.ca = 1', /^hosts\.toml: host\."a"\.ca is not a file name/],
    ['client = [[]]', /client is not a file name/],
    ['[header]\n"x" = 1', /^hosts\.toml:2: header\.x is not text/],
  ];
  for (const [content, expected] of refused) {
    it(`refuses ${JSON.stringify(content)}`, () => {
      assert.throws(
        () => parseHostsToml(content, 'hosts.toml'),
        (error: Error) => kindOf(error) === 'FailedPrecondition' && expected.test(error.message),
      );
    });
  }
});
