/** What of the suite is not expected to pass, and why. docs/conformance.md has the same table; a unit test compares the two. */

/** When the specs are left out: always, or only where what they need is missing. */
export type LeftOutWhen =
  | 'always'
  /** The spec looks for it itself and is skipped where the host or the OCI runtime lacks it. */
  | 'the host lacks it'
  | 'the OCI runtime lacks it'
  /** Left out by us, after the mirror was asked. */
  | 'the mirror lacks it';

export interface LeftOut {
  readonly subject: string;
  /** How many of the suite's specs that are; 0 for a subject that the suite has none of, or makes none of where the host lacks it. */
  readonly specs: number;
  /** Finds the specs' full names. */
  readonly names: RegExp;
  readonly when: LeftOutWhen;
  readonly why: string;
}

/** The image that one spec pulls by a digest which is a constant of the suite. */
export const DIGEST_IMAGE = {
  repository: 'k8s-staging-cri-tools/test-image-digest',
  digest: 'sha256:9700f9a2f5bf2c45f2f605a0bd3bce7cf37420ec9d3ed50ac2758413308766bf',
} as const;

export const DIGEST_SPEC = 'Image Manager public image with digest should be pulled and removed';

export const LEFT_OUT: readonly LeftOut[] = [
  {
    subject: 'NRI',
    specs: 13,
    names: /^NRI /,
    when: 'always',
    why: "the specs need a socket of the runtime's NRI, and the suite is told of none",
  },
  {
    subject: 'AppArmor',
    specs: 9,
    names: /^AppArmor /,
    when: 'the host lacks it',
    why: 'the kernel has AppArmor off, or its parser is not installed',
  },
  {
    subject: 'user namespaces',
    specs: 6,
    names: /^Security Context UserNamespaces /,
    when: 'the OCI runtime lacks it',
    why: 'runc has them from 1.2, crun from 1.9 on',
  },
  {
    subject: 'image by digest',
    specs: 1,
    names: new RegExp(`^${DIGEST_SPEC}`),
    when: 'the mirror lacks it',
    why: "the digest is a constant of the suite, and only the image's own registry has it",
  },
  {
    subject: 'SELinux',
    specs: 0,
    names: /^SELinux /,
    when: 'the host lacks it',
    why: 'the suite makes these specs only where SELinux is on',
  },
  {
    subject: 'CRIU',
    specs: 0,
    names: /checkpoint/i,
    when: 'the host lacks it',
    why: 'the suite has no spec of CheckpointContainer',
  },
];

/** The entry that a spec belongs to. */
export function leftOutFor(name: string): LeftOut | undefined {
  return LEFT_OUT.find(({ names }) => names.test(name));
}
