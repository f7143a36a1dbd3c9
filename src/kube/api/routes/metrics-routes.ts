import type { PodMetricsReader } from '../../pod-metrics.ts';
import { METRICS_API_VERSION, METRICS_GROUP, METRICS_VERSION } from '../../pod-metrics.ts';
import { methodNotAllowed, noSuchPath, sendJson, type Exchange } from './exchange.ts';

const VERSION = { groupVersion: METRICS_API_VERSION, version: METRICS_VERSION };

/** How clients find out that usage is to be had here. */
export const metricsGroup = { name: METRICS_GROUP, versions: [VERSION], preferredVersion: VERSION };

const metricsResources = {
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion: METRICS_API_VERSION,
  resources: [{ name: 'pods', singularName: '', namespaced: true, kind: 'PodMetrics', verbs: ['get', 'list'] }],
};

/**
 * Below /apis/metrics.k8s.io, as Kubernetes' metrics server has it:
 *   GET v1beta1/pods    GET v1beta1/namespaces/NS/pods    GET v1beta1/namespaces/NS/pods/NAME
 */
export async function serveMetrics(
  reader: PodMetricsReader,
  exchange: Exchange,
  path: readonly string[],
): Promise<void> {
  const { op, method, query } = exchange;
  if (method !== 'GET' && method !== 'HEAD') throw methodNotAllowed(exchange);
  const [version, ...rest] = path;
  if (version === undefined) sendJson(exchange, 200, { kind: 'APIGroup', apiVersion: 'v1', ...metricsGroup });
  else if (version !== METRICS_VERSION) throw noSuchPath(exchange);
  else if (rest.length === 0) sendJson(exchange, 200, metricsResources);
  else {
    const target = targetOf(rest);
    if (target === undefined) throw noSuchPath(exchange);
    const labelSelector = query.get('labelSelector') ?? undefined;
    const items = await reader.podMetrics(op, {
      ...target,
      ...(labelSelector === undefined ? {} : { labelSelector }),
    });
    const list = { kind: 'PodMetricsList', apiVersion: METRICS_API_VERSION, metadata: {}, items };
    sendJson(exchange, 200, target.name === undefined ? list : items[0]);
  }
}

/** `pods`, `namespaces/NS/pods`, `namespaces/NS/pods/NAME` */
function targetOf(path: readonly string[]): { readonly namespace?: string; readonly name?: string } | undefined {
  if (path.length === 1 && path[0] === 'pods') return {};
  const [namespaces, namespace, pods, name, ...rest] = path;
  if (namespaces !== 'namespaces' || namespace === undefined || pods !== 'pods' || rest.length > 0) return undefined;
  return { namespace, ...(name === undefined ? {} : { name }) };
}
