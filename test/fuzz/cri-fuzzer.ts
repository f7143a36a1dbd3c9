import { join } from 'node:path';
import {
  ContainerConfig,
  CreateContainerRequest,
  CreateContainerResponse,
  ExecSyncRequest,
  ImageSpec,
  PodSandboxConfig,
  PullImageRequest,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
} from '../../src/cri/gen/api.ts';
import type { Random } from '../soak/random.ts';
import type { ProtoMethod, ProtoSchema } from './proto-schema.ts';
import { bytesOf, randomMessage, textField, type Texts } from './random-message.ts';
import type { RawAnswer, RawCri } from './raw-cri.ts';

export interface FuzzerOptions {
  readonly random: Random;
  readonly cri: RawCri;
  readonly schema: ProtoSchema;
  /** Paths that are asked for are below it, or lead to `escaped…` in it. */
  readonly folder: string;
  /** One that the runtime has. */
  readonly image: string;
  readonly deadlineMs: number;
}

/** One call and what became of it. */
export interface FuzzedCall {
  readonly method: string;
  readonly request: Buffer;
  readonly answer: RawAnswer;
}

/** So many sandboxes and containers are known at once: the older ones are forgotten, not removed. */
const KNOWN = 20;
const SHORT_LIFE = ['/bin/sleep', '3'];

/**
 * Calls a runtime with messages that range from nonsense to what a kubelet sends, with a few fields changed, on ids that are unknown, known or
 * of something that is long gone. What it asks for stays below its folder, whatever the runtime makes of it, but for mounts and
 * networks: those of the daemon should be its own.
 */
export class CriFuzzer {
  readonly #options: FuzzerOptions;
  readonly #sandboxes: string[] = [];
  readonly #containers: string[] = [];
  #names = 0;

  constructor(options: FuzzerOptions) {
    this.#options = options;
  }

  /** One call. Methods that make something are drawn more often than the others. */
  async callOnce(): Promise<FuzzedCall> {
    const { random, schema } = this.#options;
    const making = schema.methods.filter(({ path }) => /\/(RunPodSandbox|CreateContainer|StartContainer)$/.test(path));
    const method = random.pick((random.chance(0.4) ? making : schema.methods) as [ProtoMethod]);
    return await this.call(method);
  }

  async call(method: ProtoMethod): Promise<FuzzedCall> {
    const { cri, deadlineMs } = this.#options;
    const request = this.#request(method);
    const answer = await cri.call(method, request, deadlineMs);
    if (answer.code === 'OK') this.#note(method, answer);
    return { method: method.path.slice(method.path.lastIndexOf('/') + 1), request, answer };
  }

  #request(method: ProtoMethod): Buffer {
    const { random, schema } = this.#options;
    // No message at all.
    if (random.chance(0.03)) return bytesOf(random.between(1, 60), random);
    const changed = (): Buffer => randomMessage(random, schema, this.#texts, method.request);
    const sensible = random.chance(0.75) ? this.#sensible(method) : undefined;
    if (sensible === undefined) return changed();
    // What comes later in a message wins, and submessages are merged.
    return random.chance(0.5) ? sensible : Buffer.concat([sensible, changed()]);
  }

  #sensible(method: ProtoMethod): Buffer | undefined {
    const { path } = method;
    switch (path.slice(path.lastIndexOf('/') + 1)) {
      case 'RunPodSandbox':
        return Buffer.from(RunPodSandboxRequest.encode({ config: this.#sandboxConfig(), runtimeHandler: '' }).finish());
      case 'CreateContainer':
        return Buffer.from(CreateContainerRequest.encode(this.#createRequest()).finish());
      case 'ExecSync': {
        const request = { containerId: this.#known(this.#containers), cmd: ['/bin/echo', 'here'], timeout: 2n };
        return Buffer.from(ExecSyncRequest.encode(request).finish());
      }
      case 'PullImage':
        // Nobody listens there, and the client need not wait to hear it.
        return Buffer.from(
          PullImageRequest.encode(
            PullImageRequest.fromPartial({ image: ImageSpec.fromPartial({ image: '127.0.0.1:1/a:1' }) }),
          ).finish(),
        );
      default:
        return this.#withKnownIds(method);
    }
  }

  /** Names a sandbox, a container; undefined for a request that names none. */
  #withKnownIds({ request }: ProtoMethod): Buffer | undefined {
    const fields = this.#options.schema.messages.get(request) ?? [];
    const parts = fields.flatMap(({ name, number }) => {
      if (name === 'pod_sandbox_id') return [textField(number, this.#known(this.#sandboxes))];
      return name === 'container_id' ? [textField(number, this.#known(this.#containers))] : [];
    });
    return parts.length === 0 ? undefined : Buffer.concat(parts);
  }

  #sandboxConfig(): PodSandboxConfig {
    const name = `fuzz-${String(this.#names++)}`;
    return PodSandboxConfig.fromPartial({
      metadata: { name, namespace: 'fuzz', uid: `uid-${name}`, attempt: 0 },
      logDirectory: join(this.#options.folder, 'logs', name),
      linux: {},
    });
  }

  #createRequest(): CreateContainerRequest {
    const { image } = this.#options;
    const config = ContainerConfig.fromPartial({
      metadata: { name: `c-${String(this.#names++)}`, attempt: 0 },
      image: { image },
      command: SHORT_LIFE,
      logPath: 'c.log',
      linux: {},
    });
    return { podSandboxId: this.#known(this.#sandboxes), config, sandboxConfig: this.#sandboxConfig() };
  }

  readonly #texts: Texts = (field) => {
    const { folder, image } = this.#options;
    const escape = `${'../'.repeat(12)}${folder.slice(1)}/escaped`;
    if (field === 'pod_sandbox_id') return [this.#known(this.#sandboxes), escape];
    if (field === 'container_id' || field === 'target_id') return [this.#known(this.#containers), escape];
    if (field === 'id') return [this.#known(this.#sandboxes), this.#known(this.#containers), escape];
    if (field === 'image' || field === 'image_ref') return [image, `${image}/${escape}`, `x@sha256:${'0'.repeat(64)}`];
    if (/path|director|location|hostname|cgroup_parent|ref$/.test(field)) {
      return [`${folder}/asked/for`, `${folder}/asked/../../${'x'.repeat(300)}`, escape, '/dev/null', 'a/b', '.', '..'];
    }
    return [
      '',
      'a',
      'A b',
      'tcp',
      '0',
      '-1',
      '1e99',
      escape,
      'ä€𝄞\u202e',
      'a\0b',
      'a\nb',
      '%s%n',
      '$(id)',
      'x'.repeat(5000),
    ];
  };

  /** One that is or was there; sometimes the beginning of its id, sometimes none. */
  #known(ids: readonly string[]): string {
    const { random } = this.#options;
    const id = ids.length === 0 ? '' : random.pick(ids as unknown as [string]);
    return random.chance(0.1) ? id.slice(0, random.between(0, 12)) : id;
  }

  #note({ path }: ProtoMethod, { bytes }: RawAnswer): void {
    if (path.endsWith('/RunPodSandbox')) this.#sandboxes.push(RunPodSandboxResponse.decode(bytes).podSandboxId);
    if (path.endsWith('/CreateContainer')) this.#containers.push(CreateContainerResponse.decode(bytes).containerId);
    for (const ids of [this.#sandboxes, this.#containers]) ids.splice(0, ids.length - KNOWN);
  }
}
