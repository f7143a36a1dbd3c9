import type { Duplex } from 'node:stream';
import { deadlineExceeded } from '../../../lib/errors.ts';
import { IdleWatch } from '../idle-watch.ts';
import { sentWhole } from '../session.ts';
import type { SessionContext } from '../session.ts';
import { SpdyConnection } from '../../../lib/spdy/spdy-connection.ts';
import type { StreamOffer } from '../../../lib/spdy/spdy-connection.ts';
import type { SpdyStream } from '../../../lib/spdy/spdy-stream.ts';
import type { CommandCall } from '../stream-call.ts';
import { outcomeAsStatus, outcomeAsText } from './outcome.ts';
import type { Outcome } from './outcome.ts';
import { runCommand } from './run-command.ts';
import type { CommandWire } from './run-command.ts';
import { TerminalSizes } from './terminal-sizes.ts';

/** Which way each stream goes; the client says in a header which one it opens. */
const USES = { error: 'output', stdin: 'input', stdout: 'output', stderr: 'output', resize: 'input' } as const;
type StreamType = keyof typeof USES;
type OpenStreams = Partial<Record<StreamType, SpdyStream>>;

/** remotecommand: the client opens a stream for the outcome and one for each that the request has; then the command starts. */
export async function serveCommandOverSpdy(
  context: SessionContext,
  call: CommandCall,
  protocol: string,
  socket: Duplex,
): Promise<void> {
  const { op, clock, limits } = context;
  const wanted = streamsOf(call, protocol);
  const streams: OpenStreams = {};
  const sizes = new TerminalSizes();
  const outcomeText = /^v[45]\./.test(protocol) ? outcomeAsStatus : outcomeAsText;

  const whole = Promise.withResolvers<boolean>();
  const idle = new IdleWatch(clock, limits.idleMs, () => connection.destroy('nothing came or went for too long'));
  const connection = new SpdyConnection({
    transport: socket,
    clock,
    log: op.log,
    active: idle.touch,
    onStream: (offer) => {
      open(offer, wanted, streams);
      if (wanted.every((type) => streams[type] !== undefined)) whole.resolve(true);
    },
  });
  connection.gone.addEventListener('abort', () => whole.resolve(false), { once: true });
  const tooLate = clock.after(limits.streamCreationMs, () => whole.resolve(false));

  const wire: CommandWire = {
    gone: connection.gone,
    get remote() {
      return { stdin: streams.stdin, stdout: streams.stdout, stderr: streams.stderr, resizes: sizes };
    },
    stopInput: () => {
      streams.stdin?.destroy();
      streams.resize?.destroy();
    },
    tell: async (outcome: Outcome) => {
      const text = outcomeText(outcome);
      if (text !== '') streams.error?.write(text);
      await sentWhole(streams.error);
    },
    cut: (reason) => connection.destroy(reason),
  };
  try {
    const complete = await whole.promise;
    tooLate.cancel();
    if (complete) {
      if (streams.resize === undefined) sizes.end();
      streams.resize?.on('data', (bytes: Buffer) => sizes.receive(bytes));
      streams.resize?.once('close', () => sizes.end());
      await runCommand(context, call, wire);
    } else if (!connection.gone.aborted) {
      const missing = wanted.filter((type) => streams[type] === undefined).join(', ');
      const error = deadlineExceeded(
        `the client has not opened its streams within ${limits.streamCreationMs} ms: ${missing}`,
      );
      await wire.tell({ kind: 'failed', error });
      connection.close();
    }
  } finally {
    idle.close();
    sizes.end();
  }
}

function streamsOf(call: CommandCall, protocol: string): readonly StreamType[] {
  const { stdin, stdout, stderr, tty } = call.request;
  const resizes = tty && /^v[345]\./.test(protocol);
  const asked: Record<StreamType, boolean> = { error: true, stdin, stdout, stderr, resize: resizes };
  return (Object.keys(USES) as StreamType[]).filter((type) => asked[type]);
}

function open(offer: StreamOffer, wanted: readonly StreamType[], streams: OpenStreams): void {
  const type = offer.headers.get('streamtype') ?? '';
  if (!isStreamType(type) || streams[type] !== undefined) {
    offer.refuse();
    return;
  }
  const stream = offer.accept(USES[type]);
  if (wanted.includes(type)) streams[type] = stream;
  // Clients open what they have, asked for or not, and wait for it to be accepted.
  else if (USES[type] === 'output') stream.end();
  else stream.destroy();
}

function isStreamType(type: string): type is StreamType {
  return Object.hasOwn(USES, type);
}
