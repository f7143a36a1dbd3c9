import type { JournalWriter } from '../../journal/journal.ts';
import type { DamagedRecord } from './record-store.ts';

interface Opened {
  readonly damaged: readonly DamagedRecord[];
}

/** Names the records that could not be read to who asks `explain`: what they named has no owner now, and is released. */
export function tellDamaged(
  journal: JournalWriter,
  opened: { readonly sandboxes: Opened; readonly containers: Opened },
): void {
  for (const { id, reason } of opened.sandboxes.damaged) {
    journal.record({
      subject: { sandboxId: id },
      what: 'sandbox.record-damaged',
      message: words(reason),
      outcome: 'failed',
    });
  }
  for (const { id, reason } of opened.containers.damaged) {
    journal.record({
      subject: { containerId: id },
      what: 'container.record-damaged',
      message: words(reason),
      outcome: 'failed',
    });
  }
}

function words(reason: string): string {
  return `its record cannot be read and is set aside, what it held is released: ${reason}`;
}
