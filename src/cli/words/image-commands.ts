import { resolve } from 'node:path';
import type { ImageImport } from '../../lib/image-import.ts';
import type { Command } from 'commander';
import { invalidArgument } from '../../lib/errors.ts';
import { parseFormat } from '../output/format.ts';
import { collect, RUNTIME_ENDPOINT, type ProgramHost, type Run } from './shared-options.ts';

/** image pull, list, rm, import. */
export function addImageCommands(image: Command, host: ProgramHost, run: Run): void {
  image
    .command('pull')
    .description('fetch an image from its registry')
    .argument('<reference>', 'busybox, registry.example.org/app:1.2 …')
    .option('-u, --creds <user:password>', 'credentials (default: those of the daemon for this registry)')
    .action((reference: string, o: { creds?: string }) =>
      run(async () => {
        const { imagePull } = await import('../commands/image-transfer.ts');
        const colon = o.creds?.indexOf(':') ?? -1;
        if (o.creds !== undefined && colon < 1) throw invalidArgument('--creds should be USER:PASSWORD');
        return await imagePull(host.context(), {
          reference,
          ...(o.creds === undefined ? {} : { username: o.creds.slice(0, colon), password: o.creds.slice(colon + 1) }),
        });
      }),
    );
  image
    .command('list')
    .alias('ls')
    .description('images that are here')
    .option('-o, --output <format>', 'json or yaml')
    .action((o: { output?: string }) =>
      run(async () =>
        (await import('../commands/image-list.ts')).imageList(host.context(), { format: parseFormat(o.output) }),
      ),
    );
  image
    .command('inspect')
    .description('all that is known of images: names, layers, configuration')
    .argument('<reference...>', 'names or ids')
    .option('-o, --output <format>', 'json or yaml', 'json')
    .action((references: string[], o: { output: string }) =>
      run(async () => {
        if (o.output !== 'json' && o.output !== 'yaml') throw invalidArgument('--output should be json or yaml');
        const { imageInspect } = await import('../commands/image-inspect.ts');
        return await imageInspect(host.context(), references, { format: o.output });
      }),
    );
  image
    .command('rm')
    .description('remove names of images, and images that no name is left of')
    .argument('<reference...>', 'names or ids')
    .option('-f, --force', 'also an image that containers use: they go on, and its files go with the last of them')
    .action((references: string[], o: { force?: true }) =>
      run(async () =>
        (await import('../commands/image-remove.ts')).imageRemove(host.context(), references, {
          force: o.force === true,
        }),
      ),
    );
  image
    .command('import')
    .description('take an image from a docker or OCI archive, an OCI layout folder, or a root filesystem')
    .usage('FILE|LAYOUT | --rootfs DIR|TAR [options] NAME')
    .argument('[source]', 'an archive or an OCI layout folder; with --rootfs: the name to give')
    .option('--rootfs <path>', 'a root filesystem: a folder or a tar')
    .option('--name <name>', 'name for an archive that has none')
    .option('--entrypoint <arg>', 'what a container runs (repeat for arguments)', collect, [])
    .option('--cmd <arg>', 'default arguments (may be repeated)', collect, [])
    .option('--env <NAME=VALUE>', 'environment (may be repeated)', collect, [])
    .option('--workdir <path>', 'working directory')
    .option('--user <user>', 'user or UID[:GID]')
    .option(...RUNTIME_ENDPOINT)
    .action(
      (
        source: string | undefined,
        o: {
          rootfs?: string;
          name?: string;
          entrypoint: string[];
          cmd: string[];
          env: string[];
          workdir?: string;
          user?: string;
          runtimeEndpoint?: string;
        },
      ) =>
        run(async () => {
          const { imageImport } = await import('../commands/image-transfer.ts');
          const context = host.context();
          if (o.rootfs === undefined && source === undefined)
            throw invalidArgument('name an archive or an OCI layout folder, or use --rootfs');
          if ((o.rootfs ?? source) === '')
            throw invalidArgument(
              o.rootfs === '' ? '--rootfs: the path is empty' : 'the path of what to import is empty',
            );
          const name = o.rootfs === undefined ? o.name : (source ?? o.name);
          if (o.rootfs !== undefined && name === undefined)
            throw invalidArgument('--rootfs needs a NAME for the image');
          const request: ImageImport = {
            path: resolve(context.cwd, o.rootfs ?? source ?? ''),
            source: o.rootfs === undefined ? 'archive' : 'rootfs',
            ...(name === undefined ? {} : { name }),
            ...(o.entrypoint.length === 0 ? {} : { entrypoint: o.entrypoint }),
            ...(o.cmd.length === 0 ? {} : { cmd: o.cmd }),
            ...(o.env.length === 0 ? {} : { env: o.env }),
            ...(o.workdir === undefined ? {} : { workingDir: o.workdir }),
            ...(o.user === undefined ? {} : { user: o.user }),
          };
          return await imageImport(context, request, o.runtimeEndpoint);
        }),
    );
}
