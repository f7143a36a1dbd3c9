import { createHash } from 'node:crypto';
import { invalidArgument } from '../../lib/errors.ts';

declare const brand: unique symbol;

/** `algorithm:hex`, of an algorithm that we can verify. */
export type Digest = string & { readonly [brand]: 'Digest' };

export type DigestAlgorithm = 'sha256' | 'sha512';

const HEX_LENGTH: Readonly<Record<DigestAlgorithm, number>> = { sha256: 64, sha512: 128 };

export function isDigest(text: unknown): text is Digest {
  if (typeof text !== 'string') return false;
  const [algorithm, hex, ...rest] = text.split(':');
  if (rest.length > 0 || hex === undefined) return false;
  if (algorithm !== 'sha256' && algorithm !== 'sha512') return false;
  return hex.length === HEX_LENGTH[algorithm] && /^[0-9a-f]+$/.test(hex);
}

/** Throws InvalidArgument for anything but a full lower-case sha256 or sha512 digest. */
export function parseDigest(text: string): Digest {
  if (!isDigest(text))
    throw invalidArgument(`${JSON.stringify(text.slice(0, 150))} is not a digest (sha256:<64 hex digits>)`);
  return text;
}

export function algorithmOf(digest: Digest): DigestAlgorithm {
  return digest.startsWith('sha512:') ? 'sha512' : 'sha256';
}

export function hexOf(digest: Digest): string {
  return digest.slice(digest.indexOf(':') + 1);
}

export function digestOf(data: string | Uint8Array, algorithm: DigestAlgorithm = 'sha256'): Digest {
  return `${algorithm}:${createHash(algorithm).update(data).digest('hex')}` as Digest;
}

/** Enough of a digest to recognise it in a message. */
export function shortDigest(digest: string): string {
  const colon = digest.indexOf(':');
  return digest.slice(0, colon + 13);
}
