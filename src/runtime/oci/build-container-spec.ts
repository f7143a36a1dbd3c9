import { notImplemented } from '../../lib/errors.ts';
import type { ContainerSpecInput } from './container-spec-input.ts';
import type { OciSpec } from './spec.ts';

/** The container's `config.json`. Pure. Throws InvalidArgument for what cannot be (no command, unknown capability …). */
export function buildContainerSpec(_input: ContainerSpecInput): OciSpec {
  throw notImplemented('');
}
