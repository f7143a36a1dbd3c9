import { MetricType, type Metric, type MetricDescriptor } from '../../../cri/gen/api.ts';

/** A metric by cAdvisor's name, with how its values are got from what was measured. The field's dashboards know these names and units. */
export interface MetricDefinition<Measured> {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge';
  /** Beyond {@link BASE_LABEL_KEYS}. */
  readonly labelKeys?: readonly string[];
  /** None of what this host does not count. */
  readonly values: (measured: Measured) => readonly MetricValue[];
}

export interface MetricValue {
  readonly value: bigint;
  /** Of the definition's own label keys, in their order. */
  readonly labels?: readonly string[];
}

/** On every metric, in this order. */
export const BASE_LABEL_KEYS = ['pod', 'namespace', 'container', 'id', 'image'] as const;

export type BaseLabels = Readonly<Record<(typeof BASE_LABEL_KEYS)[number], string>>;

/** One value, or none where it is not known. */
export function single(value: bigint | undefined): readonly MetricValue[] {
  return value === undefined ? [] : [{ value }];
}

const NS_PER_S = 1_000_000_000n;

/** CRI's metrics are whole numbers: of seconds, too. */
export function wholeSeconds(nanoseconds: bigint): bigint {
  return nanoseconds / NS_PER_S;
}

/** How CRI describes a metric. */
export function describe({ name, help, labelKeys = [] }: Omit<MetricDefinition<never>, 'values'>): MetricDescriptor {
  return { name, help, labelKeys: [...BASE_LABEL_KEYS, ...labelKeys] };
}

/** All values of these metrics, each with its labels. Pure. */
export function evaluate<Measured>(
  definitions: readonly MetricDefinition<Measured>[],
  measured: Measured,
  labels: BaseLabels,
  timestamp: bigint,
): Metric[] {
  const base = BASE_LABEL_KEYS.map((key) => labels[key]);
  return definitions.flatMap(({ name, type, values }) =>
    values(measured).map(({ value, labels: own = [] }) => ({
      name,
      timestamp,
      metricType: type === 'counter' ? MetricType.COUNTER : MetricType.GAUGE,
      labelValues: [...base, ...own],
      value: { value },
    })),
  );
}
