import { access, chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { detectCgroups } from '../../src/linux/cgroups.ts';

export type OciCommand = 'create' | 'start' | 'state' | 'delete' | 'exec' | 'run';

/** Hangs or fails as the files beside it say, else hands on to the real one. `$last` is the container's id. */
const script = (real: string): string => `#!/bin/sh
here=\${0%/*}
command=
for last; do
	case $command:$last in
		:create | :start | :state | :delete | :exec | :run) command=$last ;;
	esac
done
while [ -e "$here/$command.hangs" ] || [ -e "$here/$command-$last.hangs" ]; do sleep 0.1; done
for words in "$here/$command.fails" "$here/$command-$last.fails"; do
	[ ! -e "$words" ] || { cat "$words" >&2; exit 1; }
done
exec ${real} "$@"
`;

/** An OCI runtime by path (`--oci-runtime`) of which a test says when it hangs or fails, for every container or for one. */
export class WrappedOciRuntime {
  readonly path: string;
  readonly #dir: string;

  private constructor(dir: string) {
    this.#dir = dir;
    this.path = join(dir, 'wrapped-runtime');
  }

  static async make(dir: string): Promise<WrappedOciRuntime> {
    await mkdir(dir, { recursive: true });
    const wrapped = new WrappedOciRuntime(dir);
    await writeFile(wrapped.path, script(await realOciRuntime()));
    await chmod(wrapped.path, 0o755);
    return wrapped;
  }

  /** Until {@link work}; a call that hangs then goes on. */
  async hang(command: OciCommand, id?: string): Promise<void> {
    await writeFile(this.#file(command, id, 'hangs'), '');
  }

  /** Says these words on stderr and ends with 1, until {@link work}. */
  async fail(command: OciCommand, words: string, id?: string): Promise<void> {
    await writeFile(this.#file(command, id, 'fails'), `${words}\n`);
  }

  async work(command: OciCommand, id?: string): Promise<void> {
    for (const what of ['hangs', 'fails'] as const) await rm(this.#file(command, id, what), { force: true });
  }

  #file(command: OciCommand, id: string | undefined, what: 'hangs' | 'fails'): string {
    return join(this.#dir, `${id === undefined ? command : `${command}-${id}`}.${what}`);
  }
}

/** The one that the environment names, else the first that works here: crun refuses a hybrid layout of cgroups. */
export async function realOciRuntime(): Promise<string> {
  const named = process.env['GANTRY_TEST_OCI_RUNTIME'];
  if (named !== undefined) return named;
  const runc = ['/usr/sbin/runc', '/usr/bin/runc'];
  for (const path of (await detectCgroups()).mode === 'v2' ? ['/usr/bin/crun', ...runc] : runc) {
    const there = await access(path).then(
      () => true,
      () => false,
    );
    if (there) return path;
  }
  throw new Error('no OCI runtime is installed');
}
