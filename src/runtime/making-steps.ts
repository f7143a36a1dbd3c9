/** Steps in the lanes that the end of an object need not wait for. It aborts them by these names, and nothing else that has its turn by then. */
export const MAKING_STEPS = {
  sandbox: 'run the sandbox',
  container: 'create the container',
  start: 'start the container',
} as const;
