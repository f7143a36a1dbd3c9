import type { InterfaceCounters, TrafficCounters } from '../net-dev.ts';
import type { MetricDefinition } from './metric.ts';

const DIRECTIONS = [
  { word: 'receive', done: 'received', of: ({ received }: InterfaceCounters) => received },
  { word: 'transmit', done: 'sent', of: ({ sent }: InterfaceCounters) => sent },
] as const;

const COUNTED: readonly { readonly noun: string; readonly what: string; readonly counter: keyof TrafficCounters }[] = [
  { noun: 'bytes', what: 'Bytes', counter: 'bytes' },
  { noun: 'packets', what: 'Packets', counter: 'packets' },
  { noun: 'packets_dropped', what: 'Packets thrown away that should have been', counter: 'dropped' },
  { noun: 'errors', what: 'Packets with errors that should have been', counter: 'errors' },
];

/** Of a pod, by interface. */
export const NETWORK_METRICS: readonly MetricDefinition<readonly InterfaceCounters[]>[] = DIRECTIONS.flatMap(
  ({ word, done, of }) =>
    COUNTED.map(({ noun, what, counter }) => ({
      name: `container_network_${word}_${noun}_total`,
      help: `${what} ${done} by the pod through this interface.`,
      type: 'counter' as const,
      labelKeys: ['interface'],
      values: (interfaces: readonly InterfaceCounters[]) =>
        interfaces.map((each) => ({ value: of(each)[counter], labels: [each.name] })),
    })),
);
