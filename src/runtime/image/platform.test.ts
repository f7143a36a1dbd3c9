import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { choosePlatform, formatPlatform, hostPlatform, type Platform } from './platform.ts';

const AMD64 = hostPlatform('x64');
const ARM64 = hostPlatform('arm64');
const ARM = hostPlatform('arm');

function platform(text: string): Platform {
  const [os = '', architecture = '', variant] = text.split('/');
  return variant === undefined ? { os, architecture } : { os, architecture, variant };
}

describe('choosePlatform', () => {
  const table: readonly (readonly [string, Platform, readonly string[], number | undefined])[] = [
    ['skips a decoy', AMD64, ['linux/arm64', 'linux/amd64'], 1],
    ['takes the first of equals', AMD64, ['linux/amd64', 'linux/amd64'], 0],
    ['prefers the plain amd64', AMD64, ['linux/amd64/v3', 'linux/amd64'], 1],
    ['refuses a newer amd64', AMD64, ['linux/amd64/v2'], undefined],
    ['reads other spellings', AMD64, ['Linux/x86_64'], 0],
    ['knows aarch64 without a variant', ARM64, ['linux/amd64', 'linux/arm64'], 1],
    ['runs older ARM, the nearest first', ARM, ['linux/arm/v5', 'linux/arm/v6', 'linux/arm64'], 1],
    ['does not run newer ARM', ARM, ['linux/arm/v8'], undefined],
    ['ignores other systems', AMD64, ['windows/amd64', 'unknown/unknown'], undefined],
    ['finds nothing in nothing', AMD64, [], undefined],
  ];
  for (const [title, host, candidates, expected] of table) {
    it(title, () => {
      assert.equal(choosePlatform(host, candidates.map(platform)), expected);
    });
  }

  it('skips entries without a platform', () => {
    assert.equal(choosePlatform(AMD64, [undefined, platform('linux/amd64')]), 1);
  });

  it('writes platforms as users know them', () => {
    assert.equal(formatPlatform(ARM64), 'linux/arm64/v8');
    assert.equal(formatPlatform(AMD64), 'linux/amd64');
  });
});
