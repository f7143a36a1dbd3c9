import type { WebSocket } from 'ws';
import type { Protocol } from '../negotiate-protocol.ts';
import type { SessionContext } from '../session.ts';
import type { CommandCall } from '../stream-call.ts';
import { ChannelSocket } from '../websocket/channel-socket.ts';
import { outcomeAsStatus, outcomeAsText } from './outcome.ts';
import { runCommand } from './run-command.ts';
import { TerminalSizes } from './terminal-sizes.ts';

/** The first three are as the file descriptors. */
const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4 } as const;

/** remotecommand over WebSocket: all channels are there from the beginning. */
export async function serveCommandOverWebSocket(
  context: SessionContext,
  call: CommandCall,
  protocol: Protocol & { wire: 'websocket' },
  webSocket: WebSocket,
): Promise<void> {
  const { clock, limits } = context;
  const { codec, closesChannels } = protocol;
  const channels = new ChannelSocket({ webSocket, clock, codec, closesChannels, idleMs: limits.idleMs });
  const { stdin, stdout, stderr, tty } = call.request;
  const sizes = new TerminalSizes();
  channels.gone.addEventListener('abort', () => sizes.end(), { once: true });
  if (tty) channels.onMessage(CHANNEL.resize, (payload) => sizes.receive(payload));
  else sizes.end();
  const remote = {
    stdin: stdin ? channels.channel(CHANNEL.stdin, 'input') : undefined,
    stdout: stdout ? channels.channel(CHANNEL.stdout, 'output') : undefined,
    stderr: stderr ? channels.channel(CHANNEL.stderr, 'output') : undefined,
    resizes: sizes,
  };
  // By convention an empty message tells the client that it is connected.
  channels.send(stdout ? CHANNEL.stdout : stderr ? CHANNEL.stderr : CHANNEL.error, Buffer.alloc(0));
  const outcomeText = protocol.status ? outcomeAsStatus : outcomeAsText;
  try {
    await runCommand(context, call, {
      remote,
      gone: channels.gone,
      stopInput: () => remote.stdin?.destroy(),
      tell: (outcome) => {
        const text = outcomeText(outcome);
        if (text !== '') channels.send(CHANNEL.error, Buffer.from(text));
        channels.close();
        return Promise.resolve();
      },
      cut: () => channels.cut(),
    });
  } finally {
    sizes.end();
  }
}
