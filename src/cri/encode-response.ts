import { BinaryWriter } from '@bufbuild/protobuf/wire';
import { internal, messageOf } from '../lib/errors.ts';
import { perObject } from '../lib/per-object.ts';
import {
  Container,
  ContainerStatus,
  ContainerStatusResponse,
  type ListContainersResponse,
  type ListPodSandboxResponse,
  PodSandbox,
  PodSandboxStatus,
  PodSandboxStatusResponse,
  RuntimeServiceService,
} from './gen/api.ts';
import type { RpcMethod } from './rpc.ts';

interface Codec<T> {
  encode(message: T, writer: BinaryWriter): BinaryWriter;
}

type Encode = (response: never) => Buffer;

/** Wire type 2: what follows has a length. */
const DELIMITED = 2;

/**
 * What is asked for again and again while nothing changes: the objects in such an answer are the same ones each time (no side changes what it has
 * handed over), so their bytes are kept beside them.
 */
const container = perObject((item: Container) => field(1, Container, item));
const sandbox = perObject((item: PodSandbox) => field(1, PodSandbox, item));
const containerStatus = perObject((item: ContainerStatus) => field(1, ContainerStatus, item));
const sandboxStatus = perObject((item: PodSandboxStatus) => field(1, PodSandboxStatus, item));
const statusInSandbox = perObject((item: ContainerStatus) => field(3, ContainerStatus, item));

const WITH_KEPT_PARTS: ReadonlyMap<string, Encode> = new Map<string, Encode>([
  [
    RuntimeServiceService.listContainers.path,
    ({ containers }: ListContainersResponse) => Buffer.concat(containers.map(container)),
  ],
  [RuntimeServiceService.listPodSandbox.path, ({ items }: ListPodSandboxResponse) => Buffer.concat(items.map(sandbox))],
  [
    RuntimeServiceService.containerStatus.path,
    ({ status, ...rest }: ContainerStatusResponse) =>
      Buffer.concat([
        ...(status === undefined ? [] : [containerStatus(status)]),
        ContainerStatusResponse.encode({ status: undefined, ...rest }).finish(),
      ]),
  ],
  [
    RuntimeServiceService.podSandboxStatus.path,
    ({ status, containersStatuses, ...rest }: PodSandboxStatusResponse) =>
      Buffer.concat([
        ...(status === undefined ? [] : [sandboxStatus(status)]),
        ...containersStatuses.map(statusInSandbox),
        PodSandboxStatusResponse.encode({ status: undefined, containersStatuses: [], ...rest }).finish(),
      ]),
  ],
]);

/** A response as it goes over the wire. Throws Internal, in words, for one that does not fit the schema. */
export function encodeResponse(method: RpcMethod, response: unknown): Buffer {
  try {
    const encode: Encode = WITH_KEPT_PARTS.get(method.path) ?? method.responseSerialize;
    return encode(response as never);
  } catch (error) {
    throw internal(`the response of ${method.path} does not fit the schema: ${messageOf(error)}`, { cause: error });
  }
}

/** A message as a field of another: fields may come in any order, and those of one number one after the other. */
function field<T>(number: number, codec: Codec<T>, message: T): Uint8Array {
  const writer = new BinaryWriter().uint32((number << 3) | DELIMITED).fork();
  return codec.encode(message, writer).join().finish();
}
