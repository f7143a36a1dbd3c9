/** `npm stop`: ends the pods within their grace periods, then gantryd itself. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { get } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const API_SOCKET = '/run/gantry/api.sock';
const PID_FILE = '/run/gantry/gantryd.pid';
const CONTAINERS = '/run/gantry/containers';
const END_LIMIT_MS = 300_000;

function fail(message: string): never {
  console.error(`gantry: ${message}`);
  process.exit(1);
}

const answers = (): Promise<boolean> =>
  new Promise((resolve) => {
    const req = get('http://localhost/healthz', { socketPath: API_SOCKET, timeout: 60_000, agent: false }, (res) => {
      res.resume();
      resolve(res.statusCode === 200);
    });
    req.on('timeout', () => req.destroy());
    req.on('error', () => resolve(false));
  });

/** The daemon's pid, if the process that has it still is the one that wrote the file (pid and start time). */
function daemonPid(): number | undefined {
  try {
    const [pid, startTime] = readFileSync(PID_FILE, 'utf8').trim().split(' ');
    const stat = readFileSync(`/proc/${pid ?? ''}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended, whoever should have been told.
    return fields[0] !== 'Z' && fields[19] === startTime ? Number(pid) : undefined;
  } catch {
    return undefined;
  }
}

/** Containers outlive the daemon; only a daemon can end them. */
function containersLeft(): number {
  try {
    return readdirSync(CONTAINERS).length;
  } catch {
    return 0;
  }
}

if (process.getuid?.() !== 0) fail('root is needed: try again as root (sudo npm stop)');
if (!(await answers())) {
  const pid = daemonPid();
  if (pid === undefined) {
    if (containersLeft() > 0)
      fail(
        "gantryd is not running, but its containers are there: 'npm start' finds them again, then 'npm stop' ends them",
      );
    console.log('gantry: gantryd is not running');
    process.exit(0);
  }
  fail(`gantryd (pid ${pid}) does not answer on ${API_SOCKET}; its containers are left as they are`);
}
const deleted = spawnSync(join(root, 'bin/gantry'), ['delete', 'pods', '--all', '--all-namespaces'], {
  stdio: 'inherit',
});
if (deleted.status !== 0) fail('not every pod has ended: gantryd is left running to finish it');
const pid = daemonPid();
if (pid === undefined) fail(`no running gantryd is named by ${PID_FILE}`);
process.kill(pid, 'SIGTERM');
const began = performance.now();
while (daemonPid() !== undefined) {
  if (performance.now() - began > END_LIMIT_MS)
    fail(`gantryd (pid ${pid}) has not ended within ${END_LIMIT_MS / 1000} s of SIGTERM`);
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log('gantry: gantryd has ended');
