import type { AttachRequest, ExecRequest, PortForwardRequest } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';

/** What one URL stands for. */
export type StreamCall = CommandCall | PortForwardCall;
export type CommandCall =
  | { readonly kind: 'exec'; readonly request: ExecRequest }
  | { readonly kind: 'attach'; readonly request: AttachRequest };
export interface PortForwardCall {
  readonly kind: 'portforward';
  readonly request: PortForwardRequest;
}

/** @throws InvalidArgument for a request that no session can serve */
export function mustBeServable(call: StreamCall): void {
  if (call.kind === 'portforward') {
    if (call.request.podSandboxId === '') throw invalidArgument('a pod sandbox id is needed to forward ports');
    return;
  }
  const { containerId, stdin, stdout, stderr, tty } = call.request;
  if (containerId === '') throw invalidArgument(`a container id is needed to ${call.kind}`);
  if (tty && stderr) throw invalidArgument('a terminal has one output only: ask for stdout, not for stderr');
  if (!stdin && !stdout && !stderr) throw invalidArgument('one of stdin, stdout and stderr has to be asked for');
}
