import { invalidArgument } from '../../lib/errors.ts';
import { isDigest, parseDigest, type Digest } from './digest.ts';

/** A name that says where an image is, with everything that short names leave out. */
export interface ImageReference {
  /** Registry host, with its port if it has one: `docker.io`, `localhost:5000`, `[::1]:5000`. */
  readonly domain: string;
  /** Repository in the registry: `library/busybox`. */
  readonly repository: string;
  /** Set unless there is a digest: where a name carries both, the digest is what counts and the tag is dropped. */
  readonly tag?: string;
  readonly digest?: Digest;
}

export const DEFAULT_DOMAIN = 'docker.io';
const DEFAULT_TAG = 'latest';
const LONGEST_NAME = 255;

const DOMAIN_LABEL = '(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])';
const DOMAIN = new RegExp(`^(?:${DOMAIN_LABEL}(?:\\.${DOMAIN_LABEL})*|\\[[0-9a-fA-F:.]+\\])(?::[0-9]{1,5})?$`);
const PATH_COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/**
 * Reads a reference as Docker and every Kubernetes runtime do: `busybox` is `docker.io/library/busybox:latest`.
 * Throws InvalidArgument that says which part is wrong.
 */
export function parseReference(text: string): ImageReference {
  const bad = (why: string): Error =>
    invalidArgument(`invalid image reference ${JSON.stringify(text.slice(0, 300))}: ${why}`, {
      details: { reason: 'invalid-reference' },
    });
  if (text === '') throw bad('it is empty');
  if (text.trim() !== text || /\s/.test(text)) throw bad('it contains white space');
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) throw bad('a reference has no scheme (leave out what stands before //)');
  if (/^[0-9a-f]{64}$/.test(text)) throw bad('64 hexadecimal digits are an image id, not a name');

  const at = text.indexOf('@');
  const beforeDigest = at < 0 ? text : text.slice(0, at);
  const digestText = at < 0 ? undefined : text.slice(at + 1);
  if (digestText !== undefined && !isDigest(digestText)) {
    throw bad('what follows @ is not a digest (sha256:<64 hex digits>)');
  }

  const { domain, rest } = splitDomain(beforeDigest);
  if (!DOMAIN.test(domain)) throw bad(`${JSON.stringify(domain)} is not a host name`);
  const colon = rest.indexOf(':');
  const path = colon < 0 ? rest : rest.slice(0, colon);
  const tag = colon < 0 ? undefined : rest.slice(colon + 1);
  if (tag !== undefined && !TAG.test(tag)) throw bad(`${JSON.stringify(tag)} is not a tag`);
  if (path === '') throw bad('the repository is missing');
  const wrong = path.split('/').find((component) => !PATH_COMPONENT.test(component));
  if (wrong !== undefined) {
    throw bad(
      wrong === ''
        ? 'a part of the repository is empty'
        : wrong.toLowerCase() !== wrong
          ? 'the repository must be in lower case'
          : `${JSON.stringify(wrong)} is not a part of a repository name`,
    );
  }
  const repository = domain === DEFAULT_DOMAIN && !path.includes('/') ? `library/${path}` : path;
  if (domain.length + 1 + repository.length > LONGEST_NAME)
    throw bad(`the name is longer than ${String(LONGEST_NAME)} characters`);
  if (digestText !== undefined) return { domain, repository, digest: parseDigest(digestText) };
  return { domain, repository, tag: tag ?? DEFAULT_TAG };
}

/** The first component is a host when it looks like one: it has a dot, a port, an upper-case letter, or is localhost. */
function splitDomain(name: string): { domain: string; rest: string } {
  const slash = name.indexOf('/');
  const first = slash < 0 ? '' : name.slice(0, slash);
  const isHost = slash >= 0 && (/[.:[\]]/.test(first) || first === 'localhost' || first.toLowerCase() !== first);
  if (!isHost) return { domain: DEFAULT_DOMAIN, rest: name };
  const domain = first === 'index.docker.io' || first === 'registry-1.docker.io' ? DEFAULT_DOMAIN : first;
  return { domain, rest: name.slice(slash + 1) };
}

/** `docker.io/library/busybox`, without tag and digest. */
export function repositoryName(ref: ImageReference): string {
  return `${ref.domain}/${ref.repository}`;
}

/** The whole name, as it stands in repoTags and repoDigests. */
export function formatReference(ref: ImageReference): string {
  if (ref.digest !== undefined) return `${repositoryName(ref)}@${ref.digest}`;
  return `${repositoryName(ref)}:${ref.tag ?? DEFAULT_TAG}`;
}

/** What a registry's manifest path ends with: the digest, else the tag. */
export function manifestTarget(ref: ImageReference): string {
  return ref.digest ?? ref.tag ?? DEFAULT_TAG;
}

/** The repository of a formatted reference, for grouping tags and digests. */
export function repositoryOf(formatted: string): string {
  const at = formatted.indexOf('@');
  if (at >= 0) return formatted.slice(0, at);
  const colon = formatted.lastIndexOf(':');
  return colon > formatted.lastIndexOf('/') ? formatted.slice(0, colon) : formatted;
}
