import { basename } from 'node:path';
import { layerOf } from './images.ts';
import type { Layer } from './images.ts';
import type { TarMember } from './tar.ts';

/**
 * Layers that try to write, link or delete outside of themselves, one attack each. `outside` is a folder of the test's own
 * that exists: after whatever becomes of the image, `outside` must be as it was. How deep the layer lies below `/` is not
 * known, so `../` is repeated.
 */
export async function hostileLayers(outside: string): Promise<Map<string, Layer>> {
  const up = '../'.repeat(30);
  const target = outside.slice(1);
  const link = { type: 'symlink', mode: 0o777 } as const;
  const attacks: Readonly<Record<string, readonly TarMember[]>> = {
    'a name with ../': [{ name: `${up}${target}/pwned`, content: 'x' }],
    'a name with ../ behind an honest folder': [
      { name: 'a/', type: 'directory', mode: 0o755 },
      { name: `a/${up}${target}/pwned`, content: 'x' },
    ],
    'an absolute name': [{ name: `${outside}/pwned`, content: 'x' }],
    'a file through an absolute symlink': [
      { name: 'out', ...link, linkname: outside },
      { name: 'out/pwned', content: 'x' },
    ],
    'a file through a relative symlink': [
      { name: 'out', ...link, linkname: `${up}${target}` },
      { name: 'out/pwned', content: 'x' },
    ],
    'a file in place of a symlink to a file': [
      { name: 'out', ...link, linkname: `${outside}/kept` },
      { name: 'out', content: 'overwritten' },
    ],
    'a hard link to a file outside': [
      { name: 'kept', type: 'link', linkname: `${up}${target}/kept` },
      { name: 'kept', content: 'overwritten through the link' },
    ],
    'a hard link through a symlink': [
      { name: 'out', ...link, linkname: outside },
      { name: 'kept', type: 'link', linkname: 'out/kept' },
    ],
    'a folder in place of a symlink': [
      { name: 'out', ...link, linkname: outside },
      { name: 'out/', type: 'directory', mode: 0o777, uid: 12_345 },
    ],
    'a whiteout with ../': [{ name: `${up}${target}/.wh.kept`, content: '' }],
    'a whiteout through a symlink': [
      { name: 'out', ...link, linkname: outside },
      { name: 'out/.wh.kept', content: '' },
    ],
    'an opaque mark through a symlink': [
      { name: 'out', ...link, linkname: outside },
      { name: 'out/.wh..wh..opq', content: '' },
    ],
    'a whiteout of ..': [{ name: '.wh...', content: '' }],
    'a device through a symlink': [
      { name: 'out', ...link, linkname: outside },
      { name: `out/${basename(outside)}-null`, type: 'character-device', devmajor: 1, devminor: 3, mode: 0o666 },
    ],
  };
  return new Map(
    await Promise.all(Object.entries(attacks).map(async ([name, members]) => [name, await layerOf(members)] as const)),
  );
}

/** `bytes` of zeros in one file: the blob is about a thousand times smaller. */
export async function bombLayer(bytes: number): Promise<Layer> {
  return await layerOf([{ name: 'zeros', content: Buffer.alloc(bytes) }]);
}
