/**
 * Measures Gantry side by side with Debian's containerd, in one run, with one client, on the same OCI runtime; and some of Gantry's own work beside
 * the tools that a person would take for it. Prints two tables (both on the same CNI configuration; each on its own default network) and a
 * third. A ratio counts, not a time: machines are noisy. Needs root and containerd (apt-get install containerd).
 *
 * usage: npm run bench -- [--oci runc|crun|PATH] [--rounds N] [--quick] [--rows RE] [--network same|own] [--write]
 *   --rounds   of each latency, by turns on both sides (default 30)
 *   --quick    few rounds, few pods, few files: whether it works, not how fast it is
 *   --rows     only rows whose key or title the regular expression finds
 *   --network  only one of the two tables
 *   --write    keep the tables in docs/benchmarks.md, with the machine's description
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/lib/errors.ts';
import { runBench } from '../test/bench/run-bench.ts';
import { containerdIsMissing } from '../test/support/containerd.ts';

const { values } = parseArgs({
  options: {
    oci: { type: 'string', default: 'runc' },
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    rows: { type: 'string', default: '' },
    network: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});

function refuse(message: string): never {
  console.error(`bench: ${message}`);
  process.exit(2);
}

const rounds = Number(values.rounds ?? (values.quick ? 3 : 30));
if (!Number.isSafeInteger(rounds) || rounds < 1) refuse(`--rounds ${values.rounds ?? ''} is no number from 1 on`);
const { network } = values;
if (network !== undefined && network !== 'same' && network !== 'own')
  refuse(`--network ${network} is neither same nor own`);
if (process.getuid?.() !== 0) refuse('containers need root: run it as root');
const missing = containerdIsMissing();
if (missing !== false) refuse(missing);

// Everything in network, mount and IPC namespaces of its own: no rule and no bridge of the machine's is in the way, and all is gone with them.
if (process.env['GANTRY_BENCH_INSIDE'] === undefined) {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);
  const { status } = spawnSync(
    'unshare',
    [
      '--net',
      '--mount',
      '--ipc',
      '--propagation',
      'private',
      '--',
      process.execPath,
      ...process.execArgv,
      ...process.argv.slice(1),
    ],
    { stdio: 'inherit', env: { ...process.env, GANTRY_BENCH_INSIDE: '1' } },
  );
  process.exit(status ?? 1);
}

const began = performance.now();
const wanted = new RegExp(values.rows);
try {
  await runBench({
    ociRuntime: values.oci,
    rounds,
    quick: values.quick,
    networks: network === undefined ? ['same', 'own'] : [network],
    wants: ({ key, title }) => wanted.test(key) || wanted.test(title),
    write: values.write,
    progress: (line) => console.error(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${line}`),
  });
} catch (error) {
  console.error(`bench: ${messageOf(error)}`);
  process.exit(1);
}
process.exit(0);
