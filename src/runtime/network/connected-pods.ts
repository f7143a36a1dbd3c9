import { messageOf } from '../../lib/errors.ts';
import type { Ledger } from '../../lib/ledger.ts';
import type { Log } from '../../lib/log.ts';
import { readPlan, toPlain, type PlainPlan, type Plan } from './network-plan.ts';
import type { FailedAdd } from './plugin-chain.ts';
import type { PortHolder } from './port-claims.ts';

/** The ledger's kind of a pod's connection: `data.plan` is what `PodNetwork.plan` gave. */
const CNI_KIND = 'cni';

/** What the ledger knows of pods' connections, of earlier processes too. */
export class ConnectedPods {
  readonly #ledger: Ledger;
  readonly #log: Log;
  /** Disconnected ones that the ledger may still list, because their entry is forgotten only afterwards. */
  readonly #disconnected = new Set<string>();

  constructor(ledger: Ledger, log: Log) {
    this.#ledger = ledger;
    this.#log = log;
  }

  /** Its entry in the ledger, which is forgotten afterwards, counts for nothing from now on. */
  noteDisconnected(sandboxId: string): void {
    this.#disconnected.add(sandboxId);
  }

  /** It is being connected (again): its entry counts. */
  noteConnecting(sandboxId: string): void {
    this.#disconnected.delete(sandboxId);
  }

  /** Every pod's connection that the ledger knows of, except those that were taken down a moment ago. */
  plans(): Plan[] {
    const ledger = this.#ledger;
    const known = new Set<string>();
    const plans = ledger.owners().flatMap((owner) =>
      ledger.entriesOf(owner).flatMap(({ kind, data }) => {
        if (kind !== CNI_KIND) return [];
        const plan = readPlan(data['plan'] as PlainPlan);
        known.add(plan.attachment.containerId);
        return this.#disconnected.has(plan.attachment.containerId) ? [] : [plan];
      }),
    );
    for (const id of this.#disconnected) if (!known.has(id)) this.#disconnected.delete(id);
    return plans;
  }

  /** Whether a pod is on the default network. */
  useDefault(): boolean {
    return this.plans().some(({ host }) => host !== undefined);
  }

  /** Who has which host ports. */
  holders(): PortHolder[] {
    return this.plans().map(({ attachment: { containerId, args }, ports }) => {
      const { K8S_POD_NAMESPACE: namespace = '', K8S_POD_NAME: name = '' } = args;
      return { sandboxId: containerId, pod: `${namespace}/${name}`, ports };
    });
  }

  /** On disk, as taking it down may be another process's part. It only spares work: that it cannot be noted changes nothing. */
  async noteFailedAdd(plan: Plan, failedAdd: FailedAdd | undefined): Promise<void> {
    if (failedAdd === undefined) return;
    const ledger = this.#ledger;
    const id = plan.attachment.containerId;
    const entry = ledger
      .owners()
      .flatMap((owner) => ledger.entriesOf(owner))
      .find(({ kind, key }) => kind === CNI_KIND && key === id);
    if (entry === undefined) return;
    const data = { ...entry.data, plan: toPlain({ ...plan, failedAdd }) };
    try {
      await ledger.intend(entry.owner, { kind: CNI_KIND, key: id, data, volatile: false });
    } catch (error) {
      this.#log.warn({ sandboxId: id, error: messageOf(error) }, 'where CNI ADD failed could not be noted');
    }
  }
}
