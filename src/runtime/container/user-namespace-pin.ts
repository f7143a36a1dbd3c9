import type { RuntimeContext } from '../context.ts';

/** Whose ids the files of a pod's images are to have; nothing where it has the host's. */
export function userNamespacePin(
  { sandboxes, paths }: Pick<RuntimeContext, 'sandboxes' | 'paths'>,
  sandboxId: string,
): { readonly userNamespace?: string } {
  const mapped = sandboxes.get(sandboxId)?.meta.facts.idMappings !== undefined;
  return mapped ? { userNamespace: paths.sandbox(sandboxId).user } : {};
}
