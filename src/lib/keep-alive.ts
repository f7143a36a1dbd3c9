/**
 * Keeps this process alive until it ends itself by `process.exit`. A clock's timers, idle connections and helpers do not: they
 * must not hold up a process that has nothing else to do, and so a program that only waits for one would be ended by Node.
 */
export function keepAlive(): void {
  const { port1 } = new MessageChannel();
  port1.ref();
  port1.onmessage = () => undefined;
}
