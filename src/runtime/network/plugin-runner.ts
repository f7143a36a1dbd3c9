import type { Op } from '../../lib/abort.ts';
import { GantryError } from '../../lib/errors.ts';
import { execFile, type ExecResult } from '../../linux/exec.ts';
import { findProgram, PROGRAM_FOLDERS } from '../../lib/find-program.ts';
import { waitingFor } from '../../lib/waits.ts';

export type CniCommand = 'ADD' | 'DEL' | 'VERSION';

export interface PluginCall {
  readonly type: string;
  readonly command: CniCommand;
  /** The plug-in's configuration for this call. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly containerId: string;
  /** Empty when the namespace is gone. */
  readonly netns: string;
  readonly ifName: string;
  /** `KEY=value` pairs for CNI_ARGS. */
  readonly args: Readonly<Record<string, string>>;
}

/** Plug-ins call iptables and others, which are not in every service's PATH. */
export const PATH_WITH_SBIN = PROGRAM_FOLDERS.join(':');

/** The program of a plug-in in the first folder that has it. Undefined when none has. */
export function findPlugin(binDirs: readonly string[], type: string): Promise<string | undefined> {
  return findProgram(type, binDirs);
}

export function pluginMissing(type: string, binDirs: readonly string[]): GantryError {
  return new GantryError('FailedPrecondition', `CNI plug-in ${type} is in none of ${binDirs.join(', ')}`, {
    details: { plugin: type },
  });
}

/**
 * Runs a plug-in to its end; a failure of its own is a result, a missing program FailedPrecondition. `onStarted` is called as soon as its
 * process is there.
 */
export async function runPlugin(
  op: Op,
  binDirs: readonly string[],
  call: PluginCall,
  onStarted: () => void = () => undefined,
): Promise<ExecResult> {
  const program = await findPlugin(binDirs, call.type);
  if (program === undefined) throw pluginMissing(call.type, binDirs);
  const args = Object.entries(call.args)
    .map(([key, value]) => `${key}=${value}`)
    .join(';');
  const path = process.env['PATH'] ?? '';
  const options = {
    input: JSON.stringify(call.config),
    env: {
      PATH: path === '' ? PATH_WITH_SBIN : `${path}:${PATH_WITH_SBIN}`,
      CNI_COMMAND: call.command,
      CNI_CONTAINERID: call.containerId,
      CNI_NETNS: call.netns,
      CNI_IFNAME: call.ifName,
      CNI_ARGS: args,
      CNI_PATH: binDirs.join(':'),
    },
  };
  return await waitingFor(op, `CNI plug-in ${call.type} ${call.command}`, () => {
    const running = execFile(op, program, [], options);
    onStarted();
    return running;
  });
}
