import type { Op } from '../../../lib/abort.ts';
import { execFile } from '../../../linux/exec.ts';
import { invalidArgument, unavailable } from '../../../lib/errors.ts';
import { credentialsFrom, type Credentials } from './credentials.ts';

/**
 * Asks `docker-credential-NAME get`, docker's protocol for stores of secrets. Undefined when it has none for the server.
 * Its output is secret: it never gets into a message.
 */
export async function credentialsFromHelper(op: Op, name: string, server: string): Promise<Credentials | undefined> {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) {
    throw invalidArgument(`credential helper ${JSON.stringify(name.slice(0, 60))}: not a helper's name`);
  }
  const program = `docker-credential-${name}`;
  const result = await execFile(op, program, ['get'], { input: server });
  if (result.code !== 0) {
    if (/credentials not found/i.test(result.stdout + result.stderr)) return undefined;
    throw unavailable(`${program}: exit code ${String(result.code)}`);
  }
  let answer: { Username?: unknown; Secret?: unknown };
  try {
    answer = JSON.parse(result.stdout) as typeof answer;
  } catch {
    throw unavailable(`${program}: its answer is not JSON`);
  }
  const { Username: username, Secret: password } = answer;
  if (typeof username !== 'string' || typeof password !== 'string') {
    throw unavailable(`${program}: its answer has no Username and Secret`);
  }
  return credentialsFrom({ username, password });
}
