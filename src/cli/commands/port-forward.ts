import { childSignal, type Op } from '../../lib/abort.ts';
import { canceled, invalidArgument, messageOf, unavailable } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Pod } from '../../kube/objects.ts';
import type { CliContext, ExitCode } from '../context.ts';
import { forwardConnection } from '../port-forward/forward-connection.ts';
import { parseListenAddresses } from '../port-forward/listen-address.ts';
import { listenOnPorts, type LocalConnection } from '../port-forward/listen-on-ports.ts';
import { parsePortSpec } from '../port-forward/port-spec.ts';

export interface PortForwardOptions {
  readonly namespace: string;
  readonly name: string;
  /** `[LOCAL:]REMOTE` */
  readonly ports: readonly string[];
  /** Where to listen, separated by commas. */
  readonly address: string;
}

/** Local ports that lead to ports of a pod, until Ctrl-C or the pod's end. */
export async function portForward(context: CliContext, options: PortForwardOptions): Promise<ExitCode> {
  const { namespace, name } = options;
  const addresses = parseListenAddresses(options.address);
  const { kube, streams } = await context.api();
  const pod = await kube.get(context.op, 'pods', { namespace, name });
  const pairs = options.ports.map((text) => parsePortSpec(text, pod));
  const phase = pod.status?.phase ?? 'Pending';
  if (phase !== 'Running')
    throw invalidArgument(`unable to forward port because pod is not running. Current status=${phase}`);
  const session = await streams.forward(context.op, { kind: 'portforward', namespace, name });
  using held = new DisposableStack();
  const ending = held.use(childSignal(context.op.signal));
  const live = new Set<LocalConnection>();
  try {
    const onConnection = (connection: LocalConnection): void => {
      live.add(connection);
      void forwardConnection(context, session, connection).finally(() => live.delete(connection));
    };
    held.use(await listenOnPorts(context, pairs, addresses, onConnection));
    const lost = await Promise.race([
      fired(session.over).then(() => 'lost connection to pod'),
      podGone({ ...context.op, signal: ending.signal }, kube, pod),
    ]);
    // Ctrl-C is how it usually ends.
    if (context.op.signal.aborted) return 0;
    throw unavailable(lost);
  } finally {
    ending.abort(canceled('the port-forward is over'));
    session.close();
    for (const { socket } of live) socket.destroy();
  }
}

async function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Waits until the pod has ended, or another one has its name; says which. A connection that nobody uses would not notice. */
async function podGone(op: Op, kube: Pick<KubeClient, 'watch'>, pod: Pod): Promise<string> {
  const { namespace, name, uid, resourceVersion } = pod.metadata;
  try {
    const fieldSelector = `metadata.name=${name}`;
    const watch = kube.watch(op, 'pods', { namespace, fieldSelector, resourceVersion });
    for await (const event of watch) {
      if (event.type === 'BOOKMARK') continue;
      const { object } = event;
      const phase = object.status?.phase;
      if (event.type === 'DELETED' || object.metadata.uid !== uid) return `lost connection to pod: ${name} is gone`;
      if (phase === 'Succeeded' || phase === 'Failed')
        return `lost connection to pod: ${name} has ended; current phase is ${phase}`;
    }
  } catch (error) {
    return `lost connection to pod: ${messageOf(error)}`;
  }
  return 'lost connection to pod';
}
