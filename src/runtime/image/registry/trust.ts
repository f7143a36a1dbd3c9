import type { SecureContext } from 'node:tls';
import { failedPrecondition, messageOf } from '../../../lib/errors.ts';
import { nodeTls } from '../../../lib/node-tls.ts';
import { readNamedFile } from '../../../linux/read-named-file.ts';
import type { HostTls } from './registry-hosts.ts';

/** A system's bundle has some hundred kilobytes. */
const LARGEST_BUNDLE_BYTES = 16 << 20;
/** Where distributions keep the certificates that the machine trusts, an administrator's own among them. */
const SYSTEM_BUNDLES = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/cert.pem'];

/**
 * What a TLS connection to a host trusts and shows. One context is made per host and pull: reading a whole bundle of
 * certificates for each connection would take the main thread milliseconds each time.
 */
export async function secureContextFor(
  tls: HostTls,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SecureContext> {
  const system = await systemBundle(env);
  const extra = await Promise.all(tls.ca.map(readPem));
  const pairs = await Promise.all(
    tls.client.map(async ({ cert, key }) => ({ cert: await readPem(cert), key: await readPem(key ?? cert) })),
  );
  const { createSecureContext, rootCertificates } = nodeTls.tls;
  try {
    return createSecureContext({
      ca: [...(system === undefined ? rootCertificates : [system]), ...extra],
      ...(pairs.length === 0 ? {} : { cert: pairs.map((pair) => pair.cert), key: pairs.map((pair) => pair.key) }),
    });
  } catch (error) {
    const files = [...tls.ca, ...tls.client.flatMap(({ cert, key }) => (key === undefined ? [cert] : [cert, key]))];
    throw failedPrecondition(`registry certificates (${files.join(', ')}): ${messageOf(error)}`);
  }
}

async function systemBundle(env: Readonly<Record<string, string | undefined>>): Promise<string | undefined> {
  const configured = env['SSL_CERT_FILE'];
  for (const path of configured === undefined ? SYSTEM_BUNDLES : [configured, ...SYSTEM_BUNDLES]) {
    const text = await readNamedFile(path, LARGEST_BUNDLE_BYTES).catch(() => '');
    if (text.includes('BEGIN CERTIFICATE')) return text;
  }
  return undefined;
}

async function readPem(path: string): Promise<string> {
  try {
    return await readNamedFile(path, LARGEST_BUNDLE_BYTES);
  } catch (error) {
    throw failedPrecondition(`registry certificate ${path}: ${messageOf(error)}`);
  }
}
