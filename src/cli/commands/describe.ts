import type { ContainerState, ContainerStatus, Event, KubeObject, Pod } from '../../kube/objects.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { ageOf } from '../output/age.ts';
import { structured } from '../output/format.ts';
import { podStatusWord } from '../output/pod-summary.ts';
import { printable, printableLines } from '../output/printable.ts';
import { layOut } from '../output/table.ts';
import { parseResourceArgs } from '../resources.ts';
import { errorText } from '../error-text.ts';

export interface DescribeOptions {
  readonly namespace: string;
}

/** `gantry describe`: an object in words, with its events. */
export async function describe(
  context: CliContext,
  args: readonly string[],
  options: DescribeOptions,
): Promise<ExitCode> {
  const { kube } = await context.api();
  let code: ExitCode = 0;
  let first = true;
  for (const request of parseResourceArgs(args)) {
    const namespace = request.namespaced ? { namespace: options.namespace } : {};
    const names =
      request.names.length > 0
        ? request.names
        : (await kube.list(context.op, request.resource, namespace)).items.map((item) => item.metadata.name);
    for (const name of names) {
      try {
        const object: KubeObject = await kube.get(context.op, request.resource, { name, ...namespace });
        const events = await kube.list(context.op, 'events', {
          ...namespace,
          fieldSelector: eventsOf(object),
        });
        if (!first) await line(context.out, '\n');
        first = false;
        const words = object.kind === 'Pod' ? describePod(object, context.clock.wallMs()) : await describeAny(object);
        for (const text of [...words, ...describeEvents(events.items, context.clock.wallMs())])
          await line(context.out, printable(text));
      } catch (error) {
        await line(context.err, errorText(error));
        code = 1;
      }
    }
  }
  return code;
}

/** By its uid too: an earlier pod of the same name has a story of its own. A Node's events carry its name as the uid. */
function eventsOf({ kind, metadata: { name, uid } }: KubeObject): string {
  const who = `involvedObject.kind=${kind},involvedObject.name=${name}`;
  return kind === 'Node' ? who : `${who},involvedObject.uid=${uid}`;
}

/** A heading and its value, aligned in kubectl's column. */
function field(name: string, value: string, indent = 0): string {
  return `${' '.repeat(indent)}${`${name}:`.padEnd(Math.max(18 - indent, name.length + 2))}${value}`;
}

function mapLines(name: string, map: Readonly<Record<string, string>> | undefined): string[] {
  const entries = Object.entries(map ?? {}).map(([key, value]) => `${key}=${value}`);
  if (entries.length === 0) return [field(name, '<none>')];
  return entries.map((entry, index) => (index === 0 ? field(name, entry) : `${' '.repeat(18)}${entry}`));
}

export function describePod(pod: Pod, nowMs: number): string[] {
  const { metadata, spec, status } = pod;
  const lines = [
    field('Name', metadata.name),
    field('Namespace', metadata.namespace),
    field('UID', metadata.uid),
    field('Node', spec.nodeName ?? '<none>'),
    field('Start Time', status?.startTime ?? '<unknown>'),
    ...mapLines('Labels', metadata.labels),
    ...mapLines('Annotations', metadata.annotations),
  ];
  if (metadata.deletionTimestamp === undefined) lines.push(field('Status', podStatusWord(pod)));
  else {
    lines.push(field('Status', `Terminating (due ${metadata.deletionTimestamp})`));
    lines.push(field('Termination Grace Period', `${metadata.deletionGracePeriodSeconds ?? 0}s`));
  }
  if (status?.reason !== undefined) lines.push(field('Reason', status.reason));
  if (status?.message !== undefined) lines.push(field('Message', status.message));
  lines.push(field('IP', status?.podIP ?? ''), 'Containers:');
  for (const container of spec.containers) {
    const current = status?.containerStatuses?.find((candidate) => candidate.name === container.name);
    lines.push(`  ${container.name}:`);
    lines.push(field('Container ID', current?.containerID ?? '', 4));
    lines.push(field('Image', container.image ?? '', 4));
    lines.push(field('Image ID', current?.imageID ?? '', 4));
    if (container.ports !== undefined && container.ports.length > 0) {
      lines.push(
        field('Ports', container.ports.map((port) => `${port.containerPort}/${port.protocol ?? 'TCP'}`).join(', '), 4),
      );
      lines.push(
        field(
          'Host Ports',
          container.ports.map((port) => `${port.hostPort ?? 0}/${port.protocol ?? 'TCP'}`).join(', '),
          4,
        ),
      );
    }
    if (container.command !== undefined) lines.push('    Command:', ...container.command.flatMap(indented));
    if (container.args !== undefined) lines.push('    Args:', ...container.args.flatMap(indented));
    lines.push(...stateLines(current, nowMs));
    lines.push(field('Restart Count', String(current?.restartCount ?? 0), 4));
    for (const [title, amounts] of [
      ['Limits', container.resources?.limits],
      ['Requests', container.resources?.requests],
    ] as const) {
      const rows = Object.entries(amounts ?? {}).map(([name, value]) => `      ${name}:  ${value}`);
      if (rows.length > 0) lines.push(`    ${title}:`, ...rows);
    }
    const mounts = container.volumeMounts ?? [];
    lines.push(mounts.length === 0 ? '    Mounts:         <none>' : '    Mounts:');
    for (const mount of mounts)
      lines.push(`      ${mount.mountPath} from ${mount.name} (${mount.readOnly === true ? 'ro' : 'rw'})`);
  }
  const conditions = (status?.conditions ?? []).map((condition) => [`  ${condition.type}`, condition.status]);
  lines.push('Conditions:', ...layOut(['  Type', 'Status'], conditions));
  lines.push((spec.volumes ?? []).length === 0 ? 'Volumes:          <none>' : 'Volumes:');
  for (const { name, ...source } of spec.volumes ?? []) {
    const [kind, detail] = Object.entries(source)[0] ?? ['unknown', undefined];
    lines.push(`  ${name}:`, `    Type:  ${kind}  ${JSON.stringify(detail ?? {})}`);
  }
  return lines;
}

function indented(text: string): string[] {
  return text.split('\n').map((part) => `      ${part}`);
}

function stateLines(status: ContainerStatus | undefined, nowMs: number): string[] {
  const lines = describeState('State', status?.state, nowMs);
  const hasLast = status?.lastState !== undefined && Object.keys(status.lastState).length > 0;
  return [
    ...lines,
    ...(hasLast ? describeState('Last State', status.lastState, nowMs) : []),
    field('Ready', status?.ready === true ? 'True' : 'False', 4),
  ];
}

function describeState(title: string, state: ContainerState | undefined, nowMs: number): string[] {
  if (state?.running !== undefined) {
    const { startedAt } = state.running;
    return [
      field(title, 'Running', 4),
      field('Started', `${startedAt ?? '<unknown>'} (${ageOf(startedAt, nowMs)} ago)`, 6),
    ];
  }
  if (state?.terminated !== undefined) {
    const { reason, message, exitCode, signal, startedAt, finishedAt } = state.terminated;
    return [
      field(title, 'Terminated', 4),
      field('Reason', reason ?? '', 6),
      ...(message === undefined || message === '' ? [] : messageLines(message)),
      field('Exit Code', String(exitCode), 6),
      ...(signal === undefined || signal === 0 ? [] : [field('Signal', String(signal), 6)]),
      field('Started', startedAt ?? '<unknown>', 6),
      field('Finished', finishedAt ?? '<unknown>', 6),
    ];
  }
  const waiting = state?.waiting;
  return [
    field(title, 'Waiting', 4),
    ...(waiting?.reason === undefined ? [] : [field('Reason', waiting.reason, 6)]),
    ...(waiting?.message === undefined ? [] : messageLines(waiting.message)),
  ];
}

/** What a container says of its end may have lines. */
function messageLines(message: string): string[] {
  return printableLines(message).map((text, index) =>
    index === 0 ? field('Message', text, 6) : `${' '.repeat(18)}${text}`,
  );
}

function describeEvents(events: readonly Event[], nowMs: number): string[] {
  if (events.length === 0) return ['Events:           <none>'];
  const time = (event: Event): string => event.lastTimestamp ?? event.metadata.creationTimestamp;
  const rows = [...events]
    .sort((a, b) => (time(a) < time(b) ? -1 : 1))
    .map((event) => [
      `  ${event.type ?? ''}`,
      event.reason ?? '',
      (event.count ?? 1) > 1 ? `${ageOf(time(event), nowMs)} (x${event.count ?? 1})` : ageOf(time(event), nowMs),
      event.source?.component ?? event.reportingComponent ?? '',
      (event.message ?? '').trim(),
    ]);
  return ['Events:', ...layOut(['  Type', 'Reason', 'Age', 'From', 'Message'], rows)];
}

/** Whatever the object has; the values of a secret are only counted. */
async function describeAny(object: KubeObject): Promise<string[]> {
  const lines = [field('Name', object.metadata.name)];
  const { namespace } = object.metadata as { namespace?: string };
  if (namespace !== undefined) lines.push(field('Namespace', namespace));
  lines.push(...mapLines('Labels', object.metadata.labels), ...mapLines('Annotations', object.metadata.annotations));
  if (object.kind === 'Secret') {
    lines.push(field('Type', object.type ?? 'Opaque'), '', 'Data', '====');
    for (const [key, value] of Object.entries(object.data ?? {}))
      lines.push(`${key}:  ${Buffer.from(value, 'base64').length} bytes`);
    return lines;
  }
  const rest = Object.fromEntries(
    Object.entries(object).filter(([key]) => !['apiVersion', 'kind', 'metadata'].includes(key)),
  );
  if (Object.keys(rest).length > 0) lines.push('', ...(await structured('yaml', rest)).trimEnd().split('\n'));
  return lines;
}
