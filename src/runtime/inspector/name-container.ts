import type { InspectorSubject } from '../../cri/inspector/inspector.ts';
import type { JournalReader } from '../../journal/journal.ts';
import { failedPrecondition, notFound } from '../../lib/errors.ts';
import type { ObjectState } from '../../lib/object-state.ts';

/**
 * The container that people mean by the beginning of an id, NAME or POD/NAME: a name stands for every run of that container in
 * its pod. What is gone already is looked for in the journal.
 * Throws NotFound, or FailedPrecondition when several could be meant.
 */
export async function subjectOfContainer(
  wanted: string,
  namespace: string | undefined,
  states: readonly ObjectState[],
  journal: JournalReader,
): Promise<InspectorSubject> {
  const containers = states.filter(({ kind }) => kind === 'container');
  const [podName, name] = wanted.includes('/') ? wanted.split('/', 2) : [undefined, wanted];
  const named = containers.filter(
    (state) =>
      state.name === name &&
      (namespace === undefined || state.podNamespace === namespace) &&
      (podName === undefined || state.podName === podName),
  );
  const pods = new Set(
    named.map(({ podUid, podNamespace, podName: pod }) => podUid ?? `${podNamespace ?? ''}/${pod ?? ''}`),
  );
  if (pods.size > 1) {
    const names = new Set(named.map((state) => `${state.podName ?? ''}/${state.name}`));
    throw failedPrecondition(`"${wanted}" means several containers: ${[...names].join(', ')}: say which one`);
  }
  const [first] = named;
  if (first !== undefined) return subjectOfRuns(first);
  const byId = podName === undefined ? containers.filter(({ id }) => id.startsWith(wanted)) : [];
  if (byId.length > 1) throw failedPrecondition(`the id ${wanted} is that of several containers: give more of it`);
  if (byId[0] !== undefined) return { containerId: byId[0].id };
  const subject = {
    ...(namespace === undefined ? {} : { podNamespace: namespace }),
    ...(podName === undefined ? {} : { podName }),
    containerName: name,
  };
  const last = [...(await journal.query({ containerId: wanted }, 1)), ...(await journal.query(subject, 1))][0];
  if (last === undefined) throw notFound(`container "${wanted}" not found, and the journal has nothing of one`);
  const { podUid, containerId } = last.subject;
  if (containerId === wanted || podUid === undefined) return containerId === undefined ? subject : { containerId };
  return { podUid, containerName: name };
}

function subjectOfRuns({ podUid, podName, podNamespace, name }: ObjectState): InspectorSubject {
  if (podUid !== undefined) return { podUid, containerName: name };
  return {
    ...(podNamespace === undefined ? {} : { podNamespace }),
    ...(podName === undefined ? {} : { podName }),
    containerName: name,
  };
}
