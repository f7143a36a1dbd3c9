import { childSignal } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { canceled } from '../../lib/errors.ts';
import type { WatchOptions } from '../client.ts';
import type { KubeObject, Resource, WatchEvent } from '../objects.ts';
import { RESOURCES } from '../resources.ts';
import { apiError } from '../status-error.ts';
import type { ApiRegistry } from './registry.ts';
import { selectorOf, type Selector } from './selectors.ts';
import type { StoreEvent } from './watch-hub.ts';

export interface WatchRequest extends WatchOptions {
  /** First an ADDED for each object, then a bookmark that says so, then what happens (Kubernetes' streaming list). */
  readonly sendInitialEvents?: boolean;
}

/** How often a watch without news says how far it is. */
const BOOKMARK_EVERY_MS = 60_000;

/** Marks the bookmark behind the objects that were there at the start. */
const INITIAL_EVENTS_END = 'k8s.io/initial-events-end';

/**
 * The changes of the selected objects. The subscription begins with the call, so nothing between it and the first read is
 * missed; give a signal that fires if the iteration is never begun.
 *
 * @throws BadRequest for bad selectors or versions, OutOfRange (410) for a version that is too old: at the call
 */
export function watchObjects(
  registry: ApiRegistry,
  clock: Clock,
  resource: Resource,
  request: WatchRequest,
  signal: AbortSignal,
): AsyncIterable<WatchEvent<KubeObject>> {
  const selects = selectorOf(resource, request.labelSelector, request.fieldSelector);
  const { namespace } = request;
  const wanted: Selector = (object) =>
    (namespace === undefined || object.metadata.namespace === namespace) && selects(object);
  const from = request.resourceVersion ?? '';
  checkResourceVersion(from);
  const fromStart = from === '' || from === '0' || request.sendInitialEvents === true;
  const startVersion = registry.store.resourceVersion;
  const initial = fromStart && request.sendInitialEvents !== false ? registry.store.list(resource).filter(wanted) : [];
  const queue = registry.store.eventsSince(fromStart ? startVersion : Number(from));
  const ended = childSignal(
    signal,
    request.timeoutMs === undefined ? undefined : { clock, timeoutMs: request.timeoutMs, what: 'watch' },
  );
  const onEnd = (): void => queue.close();
  if (ended.signal.aborted) onEnd();
  else ended.signal.addEventListener('abort', onEnd, { once: true });
  return iterate();

  async function* iterate(): AsyncGenerator<WatchEvent<KubeObject>, void, undefined> {
    const bookmarks = { due: false };
    let timer = nextBookmark();
    try {
      for (const object of initial) yield { type: 'ADDED', object };
      if (request.sendInitialEvents === true && request.bookmarks === true) {
        yield bookmark(resource, startVersion, { [INITIAL_EVENTS_END]: 'true' });
      }
      for (let events = await queue.take(); events !== undefined; events = await queue.take()) {
        for (const event of events) {
          const seen = event.resource === resource ? asSeenBy(event, wanted) : undefined;
          if (seen !== undefined) yield seen;
        }
        if (!bookmarks.due) continue;
        bookmarks.due = false;
        timer = nextBookmark();
        // Nothing is queued, so all up to here has been sent.
        if (queue.isEmpty) yield bookmark(resource, registry.store.resourceVersion);
      }
    } finally {
      timer.cancel();
      queue.close();
      ended.abort(canceled('the watch is over'));
      ended.close();
    }

    function nextBookmark(): { cancel(): void } {
      if (request.bookmarks !== true) return { cancel: () => undefined };
      return clock.after(BOOKMARK_EVERY_MS, () => {
        bookmarks.due = true;
        queue.wake();
      });
    }
  }
}

/** An object that begins to be selected is new to the watcher, one that ceases to be is gone. */
function asSeenBy({ type, object, previous }: StoreEvent, wanted: Selector): WatchEvent<KubeObject> | undefined {
  const isWanted = wanted(object);
  const wasWanted = previous !== undefined && wanted(previous);
  if (type === 'DELETED') return wasWanted || isWanted ? { type, object } : undefined;
  if (isWanted) return { type: wasWanted ? 'MODIFIED' : 'ADDED', object };
  return wasWanted ? { type: 'DELETED', object } : undefined;
}

function bookmark(
  resource: Resource,
  resourceVersion: number,
  annotations?: Record<string, string>,
): WatchEvent<KubeObject> {
  const metadata = {
    resourceVersion: String(resourceVersion),
    creationTimestamp: null,
    ...(annotations === undefined ? {} : { annotations }),
  };
  return { type: 'BOOKMARK', object: { kind: RESOURCES[resource].kind, apiVersion: 'v1', metadata } };
}

/** Of whatever is asked for from or at a version; the empty text asks for none. @throws 400 BadRequest */
export function checkResourceVersion(text: string): void {
  if (!/^[0-9]{0,15}$/.test(text)) throw apiError('BadRequest', `invalid resource version ${JSON.stringify(text)}`);
}
