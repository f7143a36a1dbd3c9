import type { Op } from '../../../lib/abort.ts';
import type { Clock } from '../../../lib/clock.ts';
import { GantryError, messageOf, notFound, withContext } from '../../../lib/errors.ts';
import { LARGEST_DOCUMENT_BYTES, tooLarge, verify, wrongDigest, type ContentSource } from '../content-source.ts';
import { algorithmOf, digestOf, isDigest, type Digest } from '../digest.ts';
import type { Descriptor } from '../manifest.ts';
import { isIndexType, isManifestType, MANIFEST_ACCEPT } from '../media-types.ts';
import { manifestTarget, type ImageReference } from '../reference.ts';
import { downloadBlob } from './download-blob.ts';
import type { RegistryClient } from './registry-client.ts';
import type { RetryPolicy } from './retry.ts';
import { readBody } from './transport.ts';

/** A manifest as a registry sent it. */
export interface FetchedManifest {
  readonly text: string;
  readonly digest: Digest;
  readonly contentType: string | undefined;
}

/** An image's content on the hosts that serve its registry: mirrors first, then the registry itself. */
export class RegistrySource implements ContentSource, Disposable {
  readonly #clients: readonly RegistryClient[];
  readonly #clock: Clock;
  readonly #retry: RetryPolicy;
  /** Hosts that did not answer once are asked last for the rest of this pull. */
  readonly #failing = new Set<RegistryClient>();

  constructor(clients: readonly RegistryClient[], clock: Clock, retry: RetryPolicy) {
    this.#clients = clients;
    this.#clock = clock;
    this.#retry = retry;
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients) client[Symbol.dispose]();
  }

  /** What the reference points to: an image's manifest or an index. */
  async fetchManifest(op: Op, ref: ImageReference): Promise<FetchedManifest> {
    const target = manifestTarget(ref);
    const usable = this.#clients.filter(({ host }) => (ref.digest === undefined ? host.canResolve : host.canPull));
    return await this.#firstOf(op, usable, async (client) => {
      const answer = await client.get(op, {
        path: `manifests/${target}`,
        what: `manifest ${target}`,
        accept: MANIFEST_ACCEPT,
      });
      const body = await readBody(answer, LARGEST_DOCUMENT_BYTES);
      const announced = answer.headers['docker-content-digest'];
      const expected = ref.digest ?? (isDigest(announced) ? announced : undefined);
      const digest = digestOf(body, expected === undefined ? 'sha256' : algorithmOf(expected));
      if (expected !== undefined && digest !== expected) {
        throw withContext(`registry ${client.name}`, wrongDigest('manifest', expected, digest));
      }
      return { text: body.toString('utf8'), digest, contentType: answer.headers['content-type'] };
    });
  }

  async read(op: Op, descriptor: Descriptor): Promise<Buffer> {
    const { digest, mediaType, sizeBytes } = descriptor;
    if (sizeBytes > LARGEST_DOCUMENT_BYTES) throw tooLarge('content', digest);
    const isManifest = isManifestType(mediaType) || isIndexType(mediaType);
    const what = isManifest ? 'manifest' : 'configuration';
    return await this.#firstOf(op, this.#pullable, async (client) => {
      const answer = await client.get(op, {
        path: `${isManifest ? 'manifests' : 'blobs'}/${digest}`,
        what: `${what} ${digest}`,
        ...(isManifest ? { accept: MANIFEST_ACCEPT } : {}),
      });
      const body = await readBody(answer, LARGEST_DOCUMENT_BYTES);
      try {
        verify(body, descriptor, what);
      } catch (error) {
        throw withContext(`registry ${client.name}`, error);
      }
      return body;
    });
  }

  async save(op: Op, descriptor: Descriptor, path: string, onBytes: (bytes: number) => void): Promise<void> {
    await this.#firstOf(op, this.#pullable, async (client) => {
      await downloadBlob(op, {
        descriptor,
        path,
        onBytes,
        clock: this.#clock,
        retry: this.#retry,
        hostName: client.name,
        open: (fromByte) =>
          client.get(op, { path: `blobs/${descriptor.digest}`, what: `layer ${descriptor.digest}`, fromByte }),
      });
    });
  }

  get #pullable(): readonly RegistryClient[] {
    return this.#clients.filter(({ host }) => host.canPull);
  }

  /**
   * Asks one host after the other. What is thrown when all fail is the registry's own failure: a mirror that lacks the
   * image says nothing about it. The mirrors' failures are told behind it.
   */
  async #firstOf<T>(
    op: Op,
    clients: readonly RegistryClient[],
    ask: (client: RegistryClient) => Promise<T>,
  ): Promise<T> {
    const ordered = [
      ...clients.filter((client) => !this.#failing.has(client)),
      ...clients.filter((client) => this.#failing.has(client)),
    ];
    const failures: { client: RegistryClient; error: unknown }[] = [];
    for (const client of ordered) {
      try {
        return await ask(client);
      } catch (error) {
        if (op.signal.aborted || isOurs(error)) throw error;
        if (error instanceof GantryError && error.kind === 'Unavailable') this.#failing.add(client);
        failures.push({ client, error });
        if (failures.length < ordered.length) {
          op.log.warn({ host: client.name, error: messageOf(error) }, 'a registry host failed, the next one is asked');
        }
      }
    }
    const main = failures.find(({ client }) => client.host.isUpstream) ?? failures.at(-1);
    if (main === undefined)
      throw notFound('no host of the registry configuration may be asked for this (capabilities)');
    const others = failures.filter((failure) => failure !== main);
    if (others.length === 0 || !(main.error instanceof GantryError)) throw main.error;
    throw new GantryError(
      main.error.kind,
      `${main.error.message} (mirrors: ${others.map(({ error }) => messageOf(error)).join('; ')})`,
      { details: main.error.details },
    );
  }
}

/** Trouble on this machine (a full disk) is no reason to ask another host. */
function isOurs(error: unknown): boolean {
  return !(error instanceof GantryError) || error.details['local'] === true;
}
