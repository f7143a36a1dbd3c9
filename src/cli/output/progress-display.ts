import type { Clock } from '../../lib/clock.ts';
import type { Output } from '../context.ts';
import { humanSize } from './size.ts';

export interface ProgressItem {
  readonly item: string;
  readonly status: string;
  readonly doneBytes?: number;
  readonly totalBytes?: number;
}

const REDRAW_MS = 100;
const BAR_CELLS = 24;
const NAME_CELLS = 19;

/**
 * One line for each thing that moves: bars that are redrawn in place on a terminal; elsewhere a line when a thing
 * changes its status, so that a log file stays readable.
 */
export class ProgressDisplay {
  readonly #out: Output;
  readonly #clock: Clock;
  readonly #items = new Map<string, ProgressItem>();
  #drawnLines = 0;
  #drawnAtMs = -Infinity;

  constructor(out: Output, clock: Clock) {
    this.#out = out;
    this.#clock = clock;
  }

  async update(item: ProgressItem): Promise<void> {
    const before = this.#items.get(item.item);
    this.#items.set(item.item, item);
    if (this.#out.columns === undefined) {
      if (before?.status !== item.status)
        await this.#out.write(`${shortName(item.item)}: ${item.status}${sizes(item)}\n`);
      return;
    }
    const now = this.#clock.monotonicMs();
    if (before?.status === item.status && now - this.#drawnAtMs < REDRAW_MS) return;
    this.#drawnAtMs = now;
    await this.#draw(this.#out.columns);
  }

  /** Leaves the last state on the screen. */
  async close(): Promise<void> {
    if (this.#out.columns !== undefined && this.#items.size > 0) await this.#draw(this.#out.columns);
    this.#items.clear();
    this.#drawnLines = 0;
  }

  async #draw(columns: number): Promise<void> {
    const up = this.#drawnLines > 0 ? `\x1b[${this.#drawnLines}A` : '';
    const lines = [...this.#items.values()].map((item) => `\x1b[2K${progressLine(item, columns)}\n`);
    this.#drawnLines = lines.length;
    await this.#out.write(up + lines.join(''));
  }
}

export function progressLine(item: ProgressItem, columns: number): string {
  const name = shortName(item.item).padEnd(NAME_CELLS);
  const { doneBytes, totalBytes } = item;
  const bar =
    doneBytes === undefined || totalBytes === undefined || totalBytes === 0
      ? ''
      : ` ${drawBar(doneBytes / totalBytes)}`;
  return `${name} ${item.status.padEnd(12)}${bar}${sizes(item)}`.slice(0, columns).trimEnd();
}

function drawBar(fraction: number): string {
  const filled = Math.round(Math.min(Math.max(fraction, 0), 1) * BAR_CELLS);
  return `[${'='.repeat(filled)}${' '.repeat(BAR_CELLS - filled)}]`;
}

function sizes({ doneBytes, totalBytes }: ProgressItem): string {
  if (doneBytes === undefined) return totalBytes === undefined ? '' : ` ${humanSize(totalBytes)}`;
  return totalBytes === undefined || totalBytes === 0
    ? ` ${humanSize(doneBytes)}`
    : ` ${humanSize(doneBytes)}/${humanSize(totalBytes)}`;
}

function shortName(item: string): string {
  return item.startsWith('sha256:') ? item.slice(7, 19) : item;
}
