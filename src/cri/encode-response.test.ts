import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  Container,
  ContainerState,
  ContainerStatusResponse,
  Image,
  ImageServiceService,
  ListContainersResponse,
  ListImagesResponse,
  ListPodSandboxResponse,
  PodSandbox,
  PodSandboxStatusResponse,
  RuntimeServiceService,
} from './gen/api.ts';
import { encodeResponse } from './encode-response.ts';

const { listContainers, listPodSandbox, containerStatus, podSandboxStatus } = RuntimeServiceService;
const { listImages } = ImageServiceService;
const long = 'x'.repeat(20_000);
const status = { id: 'c', labels: { a: 'b', long }, startedAt: 5n };
const sandbox = { id: 's', network: { ip: '10.0.0.1', additionalIps: [{ ip: '::1' }] } };

const CASES = [
  [listContainers, ListContainersResponse.fromPartial({})],
  [listContainers, ListContainersResponse.fromPartial({ containers: [{}, { id: 'a' }, { labels: { long } }] })],
  [listPodSandbox, ListPodSandboxResponse.fromPartial({ items: [{ id: 'a' }, { id: 'b', annotations: { long } }] })],
  [listImages, ListImagesResponse.fromPartial({ images: [{ id: 'a', repoTags: ['x', 'y'], size: 5n }] })],
  [containerStatus, ContainerStatusResponse.fromPartial({})],
  [containerStatus, ContainerStatusResponse.fromPartial({ status })],
  [containerStatus, ContainerStatusResponse.fromPartial({ status, info: { info: '{}' } })],
  [podSandboxStatus, PodSandboxStatusResponse.fromPartial({})],
  [
    podSandboxStatus,
    PodSandboxStatusResponse.fromPartial({
      status: sandbox,
      containersStatuses: [status, { id: 'd' }],
      timestamp: 7n,
      info: { info: '{}' },
    }),
  ],
] as const;

describe('a response of which parts are kept', () => {
  for (const [method, response] of CASES) {
    test(`${method.path.split('/').at(-1) ?? ''}: says what it says, the second time too`, () => {
      const first = encodeResponse(method, response);
      assert.deepEqual(method.responseDeserialize(first), response);
      assert.deepEqual(encodeResponse(method, response), first);
    });
  }

  test('another object with the same id has bytes of its own', () => {
    for (const state of [ContainerState.CONTAINER_CREATED, ContainerState.CONTAINER_RUNNING]) {
      const containers = [Container.fromPartial({ id: 'a', state })];
      const bytes = encodeResponse(listContainers, { containers });
      assert.equal(listContainers.responseDeserialize(bytes).containers[0]?.state, state);
    }
  });

  test('what does not fit the schema is said to, at once and later', () => {
    const bad = { ...PodSandbox.fromPartial({}), labels: null };
    for (const response of [{ items: 'no list' }, { items: [5] }, { items: [bad] }, { items: [bad] }, undefined]) {
      assert.throws(() => encodeResponse(listPodSandbox, response), { kind: 'Internal' });
    }
    assert.throws(() => encodeResponse(listImages, { images: [Image.fromPartial({}), null] }), { kind: 'Internal' });
  });
});
