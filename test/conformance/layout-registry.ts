import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TestRegistry } from '../support/registry.ts';

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** An index or a manifest, whichever it is. */
interface Document {
  readonly manifests?: readonly Descriptor[];
  readonly config?: Descriptor;
  readonly layers?: readonly Descriptor[];
}

const REF_NAME = 'org.opencontainers.image.ref.name';

/** Serves the images of an OCI layout on disk under the names (`repository:tag`) that its index gives them. Reads the whole layout. */
export async function serveLayout(folder: string): Promise<TestRegistry> {
  const registry = await TestRegistry.start();
  try {
    const index = JSON.parse(await readFile(join(folder, 'index.json'), 'utf8')) as Document;
    for (const descriptor of index.manifests ?? []) {
      const name = descriptor.annotations?.[REF_NAME] ?? '';
      const colon = name.lastIndexOf(':');
      if (colon > 0) await push(registry, folder, descriptor, name.slice(0, colon), name.slice(colon + 1));
    }
    return registry;
  } catch (error) {
    await registry[Symbol.asyncDispose]();
    throw error;
  }
}

async function push(
  registry: TestRegistry,
  folder: string,
  descriptor: Descriptor,
  repository: string,
  ...tags: string[]
): Promise<void> {
  const { mediaType, digest, size } = descriptor;
  const data = await blob(folder, digest);
  registry.pushManifest(repository, { mediaType, digest, size, data }, ...tags);
  const { manifests = [], config, layers = [] } = JSON.parse(data.toString('utf8')) as Document;
  for (const below of manifests) await push(registry, folder, below, repository);
  for (const part of [...(config === undefined ? [] : [config]), ...layers]) {
    registry.pushBlob({ digest: part.digest, data: await blob(folder, part.digest) });
  }
}

async function blob(folder: string, digest: string): Promise<Buffer> {
  return await readFile(join(folder, 'blobs', ...digest.split(':')));
}
