/** What an image was built for, in the words of OCI (`amd64`, not Node's `x64`). */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
}

const ARCHITECTURES: Readonly<Record<string, string>> = {
  x64: 'amd64',
  ia32: '386',
  arm: 'arm',
  arm64: 'arm64',
  ppc64: 'ppc64le',
  riscv64: 'riscv64',
  s390x: 's390x',
  loong64: 'loong64',
};

/** The platform of this machine. Node does not tell which 32-bit ARM it runs on; v7 is what its own builds need. */
export function hostPlatform(nodeArch: string = process.arch): Platform {
  const architecture = ARCHITECTURES[nodeArch] ?? nodeArch;
  if (architecture === 'arm64') return { os: 'linux', architecture, variant: 'v8' };
  if (architecture === 'arm') return { os: 'linux', architecture, variant: 'v7' };
  return { os: 'linux', architecture };
}

/** Image tools write the same machine in several ways. */
export function normalizePlatform(platform: Platform): Platform {
  const os = platform.os.toLowerCase();
  let architecture = platform.architecture.toLowerCase();
  let variant = platform.variant?.toLowerCase();
  if (architecture === 'x86_64' || architecture === 'x86-64') architecture = 'amd64';
  if (architecture === 'aarch64') architecture = 'arm64';
  if (architecture === 'i386' || architecture === 'i686') architecture = '386';
  if (architecture === 'armhf') [architecture, variant] = ['arm', 'v7'];
  if (architecture === 'armel') [architecture, variant] = ['arm', 'v6'];
  if (variant !== undefined && /^[0-9]/.test(variant)) variant = `v${variant}`;
  if (architecture === 'arm64' && (variant === undefined || variant === '')) variant = 'v8';
  if (architecture === 'arm' && (variant === undefined || variant === '')) variant = 'v7';
  if (architecture === 'amd64' && variant === 'v1') variant = undefined;
  return variant === undefined || variant === '' ? { os, architecture } : { os, architecture, variant };
}

/** How well an image fits a machine: 0 is exact, larger is worse, undefined does not run there. */
export function platformDistance(host: Platform, image: Platform): number | undefined {
  const want = normalizePlatform(host);
  const have = normalizePlatform(image);
  if (want.os !== have.os || want.architecture !== have.architecture) return undefined;
  if (want.variant === have.variant) return 0;
  // A variant is a minimum: an older one runs, a newer one needs instructions that the host may lack.
  const gap = variantNumber(want.variant) - variantNumber(have.variant);
  if (!Number.isFinite(gap) || gap < 0) return undefined;
  return gap;
}

function variantNumber(variant: string | undefined): number {
  if (variant === undefined) return 1;
  const match = /^v([0-9]+)/.exec(variant);
  return match === null ? Number.NaN : Number(match[1]);
}

/** The index of the best fitting candidate. Among equals the first, as an image index asks for. */
export function choosePlatform(host: Platform, candidates: readonly (Platform | undefined)[]): number | undefined {
  let best: { index: number; distance: number } | undefined;
  candidates.forEach((candidate, index) => {
    const distance = candidate === undefined ? undefined : platformDistance(host, candidate);
    if (distance === undefined) return;
    if (best === undefined || distance < best.distance) best = { index, distance };
  });
  return best?.index;
}

export function formatPlatform({ os, architecture, variant }: Platform): string {
  return variant === undefined ? `${os}/${architecture}` : `${os}/${architecture}/${variant}`;
}
