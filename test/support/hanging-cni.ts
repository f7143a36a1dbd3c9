import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const PLUGIN = `#!/bin/sh
here=\${0%/*}
[ "$CNI_COMMAND" != DEL ] || while [ -e "$here/$CNI_CONTAINERID.hangs" ]; do sleep 0.1; done
[ "$CNI_COMMAND" != ADD ] || cat "$here/result"
`;
const RESULT = {
  cniVersion: '1.0.0',
  interfaces: [{ name: 'eth0', sandbox: 'x' }],
  ips: [{ address: '192.0.2.7/24', interface: 0 }],
};

/** A network whose only plug-in makes nothing, quickly, and whose DEL hangs for the sandboxes that a test names. */
export class HangingCni {
  readonly binDir: string;

  private constructor(binDir: string) {
    this.binDir = binDir;
  }

  static async make(binDir: string, confDir: string): Promise<HangingCni> {
    await mkdir(binDir);
    await writeFile(join(binDir, 'slow'), PLUGIN);
    await chmod(join(binDir, 'slow'), 0o755);
    await writeFile(join(binDir, 'result'), JSON.stringify(RESULT));
    const list = { cniVersion: '1.0.0', name: 'slow', plugins: [{ type: 'slow' }] };
    await writeFile(join(confDir, '10-slow.conflist'), JSON.stringify(list));
    return new HangingCni(binDir);
  }

  async hang(sandboxId: string): Promise<void> {
    await writeFile(join(this.binDir, `${sandboxId}.hangs`), '');
  }

  async work(sandboxId: string): Promise<void> {
    await rm(join(this.binDir, `${sandboxId}.hangs`), { force: true });
  }
}
