import { randomInt } from 'node:crypto';

/** So many names that are taken in a row are no accident. */
export const MAX_NAME_TRIES = 8;

/** Kubernetes' alphabet for generated names: no vowels, so no words. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';
const SUFFIX_LENGTH = 5;
/** What is left of the 63 characters that a label, and so a hostname, may have. */
const MAX_PREFIX = 58;

/** A name for an object that gives only the beginning of one (`generateName`). */
export function generateName(prefix: string): string {
  const suffix = Array.from({ length: SUFFIX_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)] ?? 'x');
  return prefix.slice(0, MAX_PREFIX) + suffix.join('');
}
