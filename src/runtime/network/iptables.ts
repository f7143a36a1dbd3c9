import type { Op } from '../../lib/abort.ts';
import { GantryError, isKind } from '../../lib/errors.ts';
import { execFile, type ExecResult } from '../../linux/exec.ts';
import { PATH_WITH_SBIN } from './plugin-runner.ts';

export interface IptablesRule {
  readonly table: 'nat' | 'filter';
  readonly chain: string;
  /** At the end of the chain, or before all others. */
  readonly place: 'append' | 'insert';
  /** Match and target, as arguments. */
  readonly spec: readonly string[];
}

/** Another program may hold the lock of iptables. */
const LOCK_WAIT_S = '10';
const NO_SUCH_RULE = 1;
/** Hosts with thousands of services have long lists. */
const MAX_RULES_BYTES = 64 << 20;
const ENOUGH_DUPLICATES = 20;

/** Carried by every rule, so that each can be told apart from those of others. */
export function comment(instance: string): readonly string[] {
  return ['-m', 'comment', '--comment', `gantry ${instance}`];
}

/** What leaves the subnet takes the host's address. */
export function masqueradeRule(instance: string, subnet: string): IptablesRule {
  return {
    table: 'nat',
    chain: 'POSTROUTING',
    place: 'append',
    spec: ['-s', subnet, '!', '-d', subnet, ...comment(instance), '-j', 'MASQUERADE'],
  };
}

/** For hosts that forward nothing by default (Docker sets that): what comes from and goes to the bridge may pass. */
export function forwardRules(instance: string, bridge: string): IptablesRule[] {
  return (['-i', '-o'] as const).map((direction) => ({
    table: 'filter',
    chain: 'FORWARD',
    place: 'insert',
    spec: [direction, bridge, ...comment(instance), '-j', 'ACCEPT'],
  }));
}

export function describeRule({ table, chain, spec }: IptablesRule): string {
  return `-t ${table} ${chain} ${spec.join(' ')}`;
}

/** A line of `iptables -S`. Undefined for a chain or a policy. */
export function parseRule(table: IptablesRule['table'], line: string): IptablesRule | undefined {
  const [command, chain, ...spec] = (line.match(/"(?:\\.|[^"\\])*"|\S+/g) ?? []).map((word) =>
    word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, '$1') : word,
  );
  if (command !== '-A' || chain === undefined) return undefined;
  return { table, chain, place: 'append', spec };
}

/** The host's own iptables, nft or legacy. */
export class Iptables {
  async has(op: Op, { table, chain, spec }: IptablesRule): Promise<boolean> {
    const answer = await run(op, ['-t', table, '-C', chain, ...spec]);
    if (answer.code === 0) return true;
    if (answer.code === NO_SUCH_RULE) return false;
    throw failed('look for', answer);
  }

  async add(op: Op, { table, chain, place, spec }: IptablesRule): Promise<void> {
    const answer = await run(op, ['-t', table, place === 'append' ? '-A' : '-I', chain, ...spec]);
    if (answer.code !== 0) throw failed('add', answer);
  }

  /** Every copy of it. None is fine. */
  async remove(op: Op, rule: IptablesRule): Promise<void> {
    for (let rest = ENOUGH_DUPLICATES; rest > 0; rest--) {
      const answer = await run(op, ['-t', rule.table, '-D', rule.chain, ...rule.spec]);
      if (answer.code === NO_SUCH_RULE) return;
      if (answer.code !== 0) throw failed('remove', answer);
    }
  }

  /** Chains and rules of a table, a line each, as `iptables -S` writes them. */
  async list(op: Op, table: IptablesRule['table']): Promise<string[]> {
    const answer = await run(op, ['-t', table, '-S']);
    if (answer.code !== 0) throw failed('list', answer);
    return answer.stdout.split('\n');
  }

  /** Rules of one chain, in their order; none when there is no such chain, or no program to look with. */
  async listChain(op: Op, table: IptablesRule['table'], chain: string): Promise<IptablesRule[]> {
    let answer: ExecResult;
    try {
      answer = await run(op, ['-t', table, '-S', chain]);
    } catch (error) {
      if (isKind(error, 'FailedPrecondition')) return [];
      throw error;
    }
    if (answer.code === NO_SUCH_RULE) return [];
    if (answer.code !== 0) throw failed('list', answer);
    return answer.stdout.split('\n').flatMap((line) => parseRule(table, line) ?? []);
  }

  /** Flushes and deletes a chain that nothing jumps to. */
  async removeChain(op: Op, table: IptablesRule['table'], chain: string): Promise<void> {
    for (const command of ['-F', '-X']) {
      const answer = await run(op, ['-t', table, command, chain]);
      if (answer.code !== 0) throw failed('remove', answer);
    }
  }

  /** Whether packets that no rule mentions are forwarded. */
  async forwardsByDefault(op: Op): Promise<boolean> {
    return !(await this.list(op, 'filter')).some((line) => /^-P FORWARD (DROP|REJECT)$/.test(line));
  }
}

async function run(op: Op, args: readonly string[]): Promise<ExecResult> {
  const path = `${process.env['PATH'] ?? ''}:${PATH_WITH_SBIN}`;
  try {
    return await execFile(op, 'iptables', ['-w', LOCK_WAIT_S, ...args], {
      env: { PATH: path },
      maxOutputBytes: MAX_RULES_BYTES,
    });
  } catch (error) {
    if (!isKind(error, 'NotFound')) throw error;
    throw new GantryError('FailedPrecondition', 'iptables is not installed: without it pods have no way out', {
      cause: error,
    });
  }
}

function failed(what: string, { code, stderr }: ExecResult): GantryError {
  return new GantryError('Internal', `iptables cannot ${what} rules (exit code ${String(code)}): ${stderr.trim()}`);
}
