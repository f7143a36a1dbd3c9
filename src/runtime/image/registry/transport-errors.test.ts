import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf, notFound } from '../../../lib/errors.ts';
import { isRetryable, transportError } from './transport-errors.ts';

const coded = (code: string, message = 'innards'): Error => Object.assign(new Error(message), { code });
const tunnel = 'Failed to establish tunnel to far.invalid:443 via http://me:secret@proxy:3128';

for (const [what, error, kind, said, retryable] of [
  ['no such name', coded('ENOTFOUND'), 'Unavailable', /^registry far: unknown host/, false],
  ['a connection that breaks', coded('ECONNRESET'), 'Unavailable', /^registry far: the connection broke$/, true],
  ['a certificate of its own', coded('DEPTH_ZERO_SELF_SIGNED_CERT'), 'FailedPrecondition', /not trusted/, false],
  ['plain http', coded('ERR_SSL_WRONG_VERSION_NUMBER'), 'FailedPrecondition', /no TLS there/, false],
  ['something else than http', coded('HPE_INVALID_CONSTANT'), 'Unavailable', /does not speak http/, false],
  [
    'a proxy that says why not',
    coded('ERR_PROXY_TUNNEL', `${tunnel}: HTTP/1.1 502 no address for far.invalid`),
    'Unavailable',
    /^registry far: the proxy of the environment does not get through to it \(502 no address for far\.invalid\)$/,
    false,
  ],
  ['a proxy that says nothing', coded('ERR_PROXY_TUNNEL', tunnel), 'Unavailable', /get through to it$/, false],
  ['what nobody knows', coded('E_NEW'), 'Unavailable', /the request failed \(E_NEW\)$/, false],
  ['an error without a code', new Error('odd'), 'Unavailable', /the request failed \(Error: odd\)$/, false],
] as const) {
  test(`a request that fails: ${what}`, () => {
    const told = transportError('far', error);
    assert.equal(told.kind, kind);
    assert.match(messageOf(told), said);
    assert.equal(isRetryable(told), retryable);
  });
}

test('what is in our own words already stays so', () => {
  const own = notFound('no such image');
  assert.equal(transportError('far', own), own);
});
