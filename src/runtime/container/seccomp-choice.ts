import { SecurityProfile_ProfileType, type LinuxContainerSecurityContext } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';

export type SeccompChoice =
  { readonly kind: 'default' } | { readonly kind: 'unconfined' } | { readonly kind: 'file'; readonly path: string };

type Security = Pick<LinuxContainerSecurityContext, 'privileged' | 'seccomp' | 'seccompProfilePath'>;

const LOCALHOST = 'localhost/';
const UNCONFINED: SeccompChoice = { kind: 'unconfined' };

/**
 * Which seccomp profile is asked for. Nothing said is unconfined, as Kubernetes has it and the field's suite tests it: who wants the
 * default profile names it. Privileged: none. Throws InvalidArgument.
 */
export function seccompChoiceOf(security: Security | undefined): SeccompChoice {
  if (security === undefined || security.privileged) return UNCONFINED;
  const { seccomp } = security;
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- kubelets before 1.19 fill this one alone
  if (seccomp === undefined) return choiceOfPath(security.seccompProfilePath);
  switch (seccomp.profileType) {
    case SecurityProfile_ProfileType.RuntimeDefault:
      return { kind: 'default' };
    case SecurityProfile_ProfileType.Unconfined:
      return UNCONFINED;
    case SecurityProfile_ProfileType.Localhost:
      return fileChoice(seccomp.localhostRef);
  }
}

/** The text from before there was a profile's type. */
function choiceOfPath(text: string): SeccompChoice {
  if (text === '' || text === 'unconfined') return UNCONFINED;
  if (text === 'runtime/default' || text === 'docker/default') return { kind: 'default' };
  if (text.startsWith(LOCALHOST)) return fileChoice(text.slice(LOCALHOST.length));
  throw invalidArgument(`seccomp profile "${text}": neither unconfined, runtime/default nor localhost/PATH`);
}

function fileChoice(path: string): SeccompChoice {
  if (path === '') throw invalidArgument('a seccomp profile of type Localhost needs localhost_ref');
  if (!path.startsWith('/')) throw invalidArgument(`seccomp profile ${path}: localhost_ref must be an absolute path`);
  return { kind: 'file', path };
}
