/** @param wanted `major.minor` of the oldest one that will do; `release` as `os.release()` has it */
export function kernelAtLeast(release: string, wanted: string): boolean {
  const [major = 0, minor = 0] = release.split(/[.-]/).map(Number);
  const [wantedMajor = 0, wantedMinor = 0] = wanted.split('.').map(Number);
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}
