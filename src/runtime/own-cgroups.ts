/** Below the cgroup parent, beside the pods': the leaf of the daemon, that of the monitors, and what an OCI runtime is tried in. */
const OWN = /^(?:daemon|monitors|probe-.*)$/;

/** Whether a cgroup is one of Gantry's own, or in one: no pod's, and not to be taken away with one. */
export function isOwnCgroup(path: string, cgroupParent: string): boolean {
  if (!path.startsWith(`${cgroupParent}/`)) return path === cgroupParent;
  return OWN.test(path.slice(cgroupParent.length + 1).split('/', 1)[0] ?? '');
}
