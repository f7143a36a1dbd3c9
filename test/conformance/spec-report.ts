/** One spec of a run. */
export interface SpecResult {
  /** The containers' texts and its own, without the suite's mark in front: `Image Manager public image …`. */
  readonly name: string;
  readonly outcome: SpecOutcome;
  readonly seconds: number;
}

export type SpecOutcome =
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed'; readonly message: string }
  /** By itself, while it ran. */
  | { readonly kind: 'skipped'; readonly reason: string }
  /** By the flags of the run: another focus, a skip, the benchmarks. */
  | { readonly kind: 'not selected' };

interface GinkgoSpec {
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly LeafNodeType: string;
  readonly LeafNodeText: string;
  readonly State: string;
  readonly RunTime: number;
  readonly Failure?: { readonly Message?: string };
}

interface GinkgoSuite {
  readonly SpecReports: readonly GinkgoSpec[] | null;
  readonly SpecialSuiteFailureReasons: readonly string[] | null;
}

const NANOSECONDS = 1e9;

/** Reads Ginkgo's JSON report: the specs, and what failed outside them (a suite's set-up, a time limit) as failed specs of that name. */
export function readSpecReport(json: string): SpecResult[] {
  const results: SpecResult[] = [];
  for (const suite of JSON.parse(json) as readonly GinkgoSuite[]) {
    for (const spec of suite.SpecReports ?? []) {
      const outcome = outcomeOf(spec);
      // Suites' own nodes are of interest only when they go wrong.
      if (spec.LeafNodeType !== 'It' && outcome.kind !== 'failed') continue;
      results.push({ name: nameOf(spec), outcome, seconds: spec.RunTime / NANOSECONDS });
    }
    for (const reason of suite.SpecialSuiteFailureReasons ?? []) {
      // Said of every suite with a failed spec, and those are there.
      if (/^Detected \d+ failed specs?/i.test(reason) || results.some(({ outcome }) => outcome.kind === 'failed')) {
        continue;
      }
      results.push({ name: 'the suite', outcome: { kind: 'failed', message: reason }, seconds: 0 });
    }
  }
  return results;
}

function nameOf({ ContainerHierarchyTexts, LeafNodeText, LeafNodeType }: GinkgoSpec): string {
  const words = [...(ContainerHierarchyTexts ?? []), LeafNodeText].map((text) => text.replace(/^\[k8s\.io\]\s+/, ''));
  const name = words.filter((text) => text !== '').join(' ');
  return name === '' ? LeafNodeType : name;
}

function outcomeOf({ State, Failure }: GinkgoSpec): SpecOutcome {
  const message = (Failure?.Message ?? '').trim();
  if (State === 'passed') return { kind: 'passed' };
  if (State !== 'skipped' && State !== 'pending') return { kind: 'failed', message: message === '' ? State : message };
  return message === '' ? { kind: 'not selected' } : { kind: 'skipped', reason: message };
}
