import { attachWithStreams } from './container/attach.ts';
import { execWithStreams } from './container/exec.ts';
import type { RuntimeContext } from './context.ts';
import { forwardPort } from './sandbox/port-forward.ts';
import type { StreamHandlers } from './streaming/streams.ts';

export interface RunningStreams extends StreamHandlers {
  /** Resolves when no session is at work any more, at the latest when the op's signal fires. */
  idle(): Promise<void>;
}

/** What the URLs of Exec, Attach and PortForward lead to. */
export function streamHandlers(rt: RuntimeContext): RunningStreams {
  const running = new Set<Promise<unknown>>();
  const counted = <T>(session: Promise<T>): Promise<T> => {
    const settled = session.then(
      () => undefined,
      () => undefined,
    );
    running.add(settled);
    void settled.then(() => running.delete(settled));
    return session;
  };
  return {
    exec: (op, request, remote) => counted(execWithStreams(op, rt, request, remote)),
    attach: (op, request, remote) => counted(attachWithStreams(op, rt, request, remote)),
    portForward: (op, request, port, data) => counted(forwardPort(op, rt, request, port, data)),
    idle: async () => {
      await Promise.all(running);
    },
  };
}
