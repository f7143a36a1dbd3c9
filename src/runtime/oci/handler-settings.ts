import { basename, isAbsolute } from 'node:path';
import { invalidArgument } from '../../lib/errors.ts';
import type { Candidate } from './probe.ts';

/** crun is about twice as fast, but its older releases refuse a hybrid cgroup layout (PARTS.md 2). */
const PREFERENCE = ['crun', 'runc'];
const NAME = /^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/;

/**
 * `crun,runc,kata=/usr/bin/kata` as handlers: a name that is looked for in the usual places, or a name and a program. Throws InvalidArgument,
 * naming what is wrong with which.
 */
export function parseHandlers(texts: readonly string[]): Candidate[] {
  const handlers = texts.map((text): Candidate => {
    const [name = '', program, ...more] = text.split('=');
    if (!NAME.test(name))
      throw invalidArgument(`--runtimes: "${name}" is no handler's name (lower-case letters, digits, dots, dashes)`);
    if (program !== undefined && (more.length > 0 || !isAbsolute(program))) {
      throw invalidArgument(`--runtimes: ${text} is not of the form NAME or NAME=/PATH`);
    }
    return { name, program: program ?? name };
  });
  const twice = handlers.find(({ name }, i) => handlers.findIndex((other) => other.name === name) < i);
  if (twice !== undefined) throw invalidArgument(`--runtimes: ${twice.name} is named twice`);
  return handlers;
}

/** Which programs may be the default handler, in that order: the first that works is. `choice` is `auto`, a handler, a name or a path. */
export function defaultCandidates(choice: string, handlers: readonly Candidate[]): Candidate[] {
  const named = (name: string): Candidate => handlers.find((one) => one.name === name) ?? { name, program: name };
  if (choice !== 'auto') return [isAbsolute(choice) ? { name: basename(choice), program: choice } : named(choice)];
  const known = handlers.filter(({ name }) => PREFERENCE.includes(name));
  // Who names handlers names those that he wants; one of another kind is not everybody's by default.
  return PREFERENCE.filter((name) => known.length === 0 || known.some((one) => one.name === name)).map(named);
}
