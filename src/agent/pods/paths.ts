import { join } from 'node:path';

/** A plug-in's name as a directory name: every `/` becomes `~` (BEHAVIOUR.md 15). */
export function escapePluginName(plugin: string): string {
  return plugin.replaceAll('/', '~');
}

/** A directory name back to the plug-in's name. */
export function unescapePluginName(directory: string): string {
  return directory.replaceAll('~', '/');
}

/**
 * Where things of a pod lie, in kubelet's layout. Names are checked at the API's edge (DNS labels), uids are ours; a
 * part that could leave its folder is refused all the same.
 */
export class PodPaths {
  readonly podsDir: string;
  readonly logRoot: string;

  constructor(podsDir: string, logRoot: string) {
    this.podsDir = podsDir;
    this.logRoot = logRoot;
  }

  pod(uid: string): string {
    return join(this.podsDir, part(uid));
  }

  volumes(uid: string): string {
    return join(this.pod(uid), 'volumes');
  }

  /** The directory of one volume (BEHAVIOUR.md 14): derived, never passed. */
  volume(uid: string, plugin: string, name: string): string {
    return join(this.volumes(uid), part(escapePluginName(plugin)), part(name));
  }

  /** Where a plug-in notes what it made, outside the volume that containers can write to. */
  volumeMeta(uid: string, plugin: string, name: string): string {
    return join(this.pod(uid), 'plugins', part(escapePluginName(plugin)), part(name));
  }

  /** The ids of the host that the pod's users and groups are. */
  userNamespace(uid: string): string {
    return join(this.pod(uid), 'userns');
  }

  etcHosts(uid: string): string {
    return join(this.pod(uid), 'etc-hosts');
  }

  /** Termination messages of one container. */
  container(uid: string, container: string): string {
    return join(this.pod(uid), 'containers', part(container));
  }

  /** The end of a pod that has begun: what a restarted agent goes on with. */
  termination(uid: string): string {
    return join(this.pod(uid), 'termination.json');
  }

  logs(pod: { readonly namespace: string; readonly name: string; readonly uid: string }): string {
    return join(this.logRoot, part(`${pod.namespace}_${pod.name}_${pod.uid}`));
  }

  /** Of one run of a container, below {@link logs}: what CRI calls the container's log path. */
  containerLog(container: string, attempt: number): string {
    return `${part(container)}/${String(attempt)}.log`;
  }
}

function part(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0')) {
    throw new RangeError(`${JSON.stringify(name)} is not a file name`);
  }
  return name;
}
