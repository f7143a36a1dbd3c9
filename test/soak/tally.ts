/** What a soak has seen. Everything below `violations` has to be zero at the end. */
export class SoakTally {
  pods = 0;
  containers = 0;
  /** Calls that broke off because the daemon was killed. */
  broken = 0;
  /** Starts that a kill cut short before the command ran: told as such, and made anew. */
  startsCutShort = 0;
  lines = 0;

  wrongCodes = 0;
  unknownCodes = 0;
  lostLines = 0;
  wrongTimes = 0;
  leaks = 0;
  readonly violations: string[] = [];

  /** By call: longest answer to a first call and to a repeated one. */
  readonly #longestMs = new Map<string, { first: number; repeated: number; repeats: number }>();

  took(call: string, repeated: boolean, ms: number): void {
    const known = this.#longestMs.get(call) ?? { first: 0, repeated: 0, repeats: 0 };
    if (repeated) {
      known.repeats++;
      known.repeated = Math.max(known.repeated, ms);
    } else known.first = Math.max(known.first, ms);
    this.#longestMs.set(call, known);
  }

  /** Lines of a table. */
  table(kills: number, seconds: number): string[] {
    const rows: [string, string | number][] = [
      ['time', `${seconds.toFixed(0)} s`],
      ['pods', this.pods],
      ['containers', this.containers],
      ['log lines', this.lines],
      ['kills of gantryd', kills],
      ['calls broken off', this.broken],
      ['starts cut short', this.startsCutShort],
      ['wrong exit codes', this.wrongCodes],
      ['unknown exit codes', this.unknownCodes],
      ['lost or wrong log lines', this.lostLines],
      ['ends before starts', this.wrongTimes],
      ['leaks', this.leaks],
      ['violations', this.violations.length],
    ];
    for (const [call, { first, repeated, repeats }] of this.#longestMs) {
      if (repeats > 0) {
        rows.push([
          `${call}: longest`,
          `${first.toFixed(0)} ms, repeated (${repeats} times) ${repeated.toFixed(0)} ms`,
        ]);
      }
    }
    const width = Math.max(...rows.map(([name]) => name.length));
    return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
  }
}
