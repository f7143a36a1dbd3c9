import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { kindOf } from '../../../lib/errors.ts';
import { credentialsFrom, hostOfServerAddress, isMeantFor, printableUrl, Redactor } from './credentials.ts';

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

describe('credentialsFrom', () => {
  it('reads every form, the stronger one first', () => {
    assert.equal(credentialsFrom({}), undefined);
    assert.equal(credentialsFrom({ username: '', password: '', auth: '' }), undefined);
    assert.deepEqual(credentialsFrom({ username: 'u', password: 'p' }), {
      kind: 'basic',
      username: 'u',
      password: 'p',
    });
    assert.deepEqual(credentialsFrom({ auth: base64('u:p:q\0\0') }), { kind: 'basic', username: 'u', password: 'p:q' });
    assert.deepEqual(credentialsFrom({ auth: base64('<token>:t') }), { kind: 'identity-token', token: 't' });
    assert.deepEqual(credentialsFrom({ username: 'u', identityToken: 't' }), { kind: 'identity-token', token: 't' });
    assert.deepEqual(credentialsFrom({ username: 'u', registryToken: 't' }), { kind: 'registry-token', token: 't' });
  });

  it('refuses what is no pair, without quoting it', () => {
    assert.throws(
      () => credentialsFrom({ auth: base64('secret') }),
      (error: Error) => kindOf(error) === 'InvalidArgument' && !error.message.includes('secret'),
    );
  });
});

describe('isMeantFor', () => {
  const table: readonly (readonly [string, string, boolean])[] = [
    ['', 'docker.io', true],
    ['https://index.docker.io/v1/', 'docker.io', true],
    ['registry-1.docker.io', 'docker.io', true],
    ['https://a.example/v2/', 'a.example', true],
    ['a.example:5000', 'a.example:5000', true],
    ['a.example', 'a.example:5000', false],
    ['https://a.example', 'b.example', false],
  ];
  for (const [serverAddress, domain, expected] of table) {
    it(`${JSON.stringify(serverAddress)} for ${domain}`, () => {
      assert.equal(isMeantFor({ serverAddress }, domain), expected);
    });
  }

  it('knows hosts in addresses', () => {
    assert.equal(hostOfServerAddress('HTTPS://[::1]:5000/v2'), '[::1]:5000');
  });
});

describe('Redactor', () => {
  it('takes out secrets in the forms that they travel in', () => {
    const redactor = new Redactor();
    redactor.addCredentials({ kind: 'basic', username: 'u', password: 'p ss/w' });
    redactor.add('abc');
    const text = `p ss/w p%20ss%2Fw ${base64('u:p ss/w')} abc`;
    // What is too short to be a secret stays: it would take words apart.
    assert.equal(redactor.clean(text), '<secret> <secret> <secret> abc');
  });

  it('prints addresses without what may be secret in them', () => {
    assert.equal(printableUrl(new URL('https://u:p@a.example:1/b?sig=x#y')), 'https://a.example:1/b');
  });
});
