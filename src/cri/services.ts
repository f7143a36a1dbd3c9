import type { Op } from '../lib/abort.ts';
import type {
  AttachRequest,
  AttachResponse,
  CheckpointContainerRequest,
  CheckpointContainerResponse,
  ContainerEventResponse,
  ContainerStatsRequest,
  ContainerStatsResponse,
  ContainerStatusRequest,
  ContainerStatusResponse,
  CreateContainerRequest,
  CreateContainerResponse,
  ExecRequest,
  ExecResponse,
  ExecSyncRequest,
  ExecSyncResponse,
  GetEventsRequest,
  ImageFsInfoRequest,
  ImageFsInfoResponse,
  ImageStatusRequest,
  ImageStatusResponse,
  ListContainerStatsRequest,
  ListContainerStatsResponse,
  ListContainersRequest,
  ListContainersResponse,
  ListImagesRequest,
  ListImagesResponse,
  ListMetricDescriptorsRequest,
  ListMetricDescriptorsResponse,
  ListPodSandboxMetricsRequest,
  ListPodSandboxMetricsResponse,
  ListPodSandboxRequest,
  ListPodSandboxResponse,
  ListPodSandboxStatsRequest,
  ListPodSandboxStatsResponse,
  PodSandboxStatsRequest,
  PodSandboxStatsResponse,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
  PortForwardRequest,
  PortForwardResponse,
  PullImageRequest,
  PullImageResponse,
  RemoveContainerRequest,
  RemoveContainerResponse,
  RemoveImageRequest,
  RemoveImageResponse,
  RemovePodSandboxRequest,
  RemovePodSandboxResponse,
  ReopenContainerLogRequest,
  ReopenContainerLogResponse,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  RuntimeConfigRequest,
  RuntimeConfigResponse,
  StartContainerRequest,
  StartContainerResponse,
  StatusRequest,
  StatusResponse,
  StopContainerRequest,
  StopContainerResponse,
  StopPodSandboxRequest,
  StopPodSandboxResponse,
  StreamContainerStatsRequest,
  StreamContainerStatsResponse,
  StreamContainersRequest,
  StreamContainersResponse,
  StreamImagesRequest,
  StreamImagesResponse,
  StreamPodSandboxMetricsRequest,
  StreamPodSandboxMetricsResponse,
  StreamPodSandboxStatsRequest,
  StreamPodSandboxStatsResponse,
  StreamPodSandboxesRequest,
  StreamPodSandboxesResponse,
  UpdateContainerResourcesRequest,
  UpdateContainerResourcesResponse,
  UpdatePodSandboxResourcesRequest,
  UpdatePodSandboxResourcesResponse,
  UpdateRuntimeConfigRequest,
  UpdateRuntimeConfigResponse,
  VersionRequest,
  VersionResponse,
} from './gen/api.ts';

/**
 * CRI v1's RuntimeService, one method per RPC: where agent and runtime meet, in process or over the socket. A request and a
 * response belong to both sides: neither is changed once handed over. Failures are GantryErrors. The op's signal fires when
 * the caller's deadline has passed or the caller has gone away.
 */
export interface RuntimeService {
  version(op: Op, request: VersionRequest): Promise<VersionResponse>;
  runPodSandbox(op: Op, request: RunPodSandboxRequest): Promise<RunPodSandboxResponse>;
  stopPodSandbox(op: Op, request: StopPodSandboxRequest): Promise<StopPodSandboxResponse>;
  removePodSandbox(op: Op, request: RemovePodSandboxRequest): Promise<RemovePodSandboxResponse>;
  podSandboxStatus(op: Op, request: PodSandboxStatusRequest): Promise<PodSandboxStatusResponse>;
  listPodSandbox(op: Op, request: ListPodSandboxRequest): Promise<ListPodSandboxResponse>;
  createContainer(op: Op, request: CreateContainerRequest): Promise<CreateContainerResponse>;
  startContainer(op: Op, request: StartContainerRequest): Promise<StartContainerResponse>;
  stopContainer(op: Op, request: StopContainerRequest): Promise<StopContainerResponse>;
  removeContainer(op: Op, request: RemoveContainerRequest): Promise<RemoveContainerResponse>;
  listContainers(op: Op, request: ListContainersRequest): Promise<ListContainersResponse>;
  containerStatus(op: Op, request: ContainerStatusRequest): Promise<ContainerStatusResponse>;
  reopenContainerLog(op: Op, request: ReopenContainerLogRequest): Promise<ReopenContainerLogResponse>;
  execSync(op: Op, request: ExecSyncRequest): Promise<ExecSyncResponse>;
  status(op: Op, request: StatusRequest): Promise<StatusResponse>;
  runtimeConfig(op: Op, request: RuntimeConfigRequest): Promise<RuntimeConfigResponse>;

  // Not in every runtime (yet): an absent one answers NotImplemented over the socket.
  streamPodSandboxes?(op: Op, request: StreamPodSandboxesRequest): AsyncIterable<StreamPodSandboxesResponse>;
  streamContainers?(op: Op, request: StreamContainersRequest): AsyncIterable<StreamContainersResponse>;
  updateContainerResources?(
    op: Op,
    request: UpdateContainerResourcesRequest,
  ): Promise<UpdateContainerResourcesResponse>;
  exec?(op: Op, request: ExecRequest): Promise<ExecResponse>;
  attach?(op: Op, request: AttachRequest): Promise<AttachResponse>;
  portForward?(op: Op, request: PortForwardRequest): Promise<PortForwardResponse>;
  containerStats?(op: Op, request: ContainerStatsRequest): Promise<ContainerStatsResponse>;
  listContainerStats?(op: Op, request: ListContainerStatsRequest): Promise<ListContainerStatsResponse>;
  streamContainerStats?(op: Op, request: StreamContainerStatsRequest): AsyncIterable<StreamContainerStatsResponse>;
  podSandboxStats?(op: Op, request: PodSandboxStatsRequest): Promise<PodSandboxStatsResponse>;
  listPodSandboxStats?(op: Op, request: ListPodSandboxStatsRequest): Promise<ListPodSandboxStatsResponse>;
  streamPodSandboxStats?(op: Op, request: StreamPodSandboxStatsRequest): AsyncIterable<StreamPodSandboxStatsResponse>;
  updateRuntimeConfig?(op: Op, request: UpdateRuntimeConfigRequest): Promise<UpdateRuntimeConfigResponse>;
  checkpointContainer?(op: Op, request: CheckpointContainerRequest): Promise<CheckpointContainerResponse>;
  getContainerEvents?(op: Op, request: GetEventsRequest): AsyncIterable<ContainerEventResponse>;
  listMetricDescriptors?(op: Op, request: ListMetricDescriptorsRequest): Promise<ListMetricDescriptorsResponse>;
  listPodSandboxMetrics?(op: Op, request: ListPodSandboxMetricsRequest): Promise<ListPodSandboxMetricsResponse>;
  streamPodSandboxMetrics?(
    op: Op,
    request: StreamPodSandboxMetricsRequest,
  ): AsyncIterable<StreamPodSandboxMetricsResponse>;
  updatePodSandboxResources?(
    op: Op,
    request: UpdatePodSandboxResourcesRequest,
  ): Promise<UpdatePodSandboxResourcesResponse>;
}

/** CRI v1's ImageService, under the same rules as {@link RuntimeService}. */
export interface ImageService {
  listImages(op: Op, request: ListImagesRequest): Promise<ListImagesResponse>;
  imageStatus(op: Op, request: ImageStatusRequest): Promise<ImageStatusResponse>;
  pullImage(op: Op, request: PullImageRequest): Promise<PullImageResponse>;
  removeImage(op: Op, request: RemoveImageRequest): Promise<RemoveImageResponse>;
  imageFsInfo(op: Op, request: ImageFsInfoRequest): Promise<ImageFsInfoResponse>;

  // Not in every runtime (yet): an absent one answers NotImplemented over the socket.
  streamImages?(op: Op, request: StreamImagesRequest): AsyncIterable<StreamImagesResponse>;
}
