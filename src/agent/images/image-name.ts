const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?';
const HOST = `(?:${LABEL}(?:\\.${LABEL})*|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]+)?`;
const COMPONENT = '[a-z0-9]+(?:(?:\\.|__?|-+)[a-z0-9]+)*';
const TAG = '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}';
const DIGEST = '[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,}';
const NAME = new RegExp(`^(?:${HOST}/)?${COMPONENT}(?:/${COMPONENT})*(?::${TAG})?(?:@${DIGEST})?$`);

/**
 * Whether the text has the form of an image's name (`busybox`, `host:5000/team/app:1@sha256:…`). A runtime says InvalidArgument
 * of a name as well as of what it found under it, and only the first is `InvalidImageName`.
 */
export function isImageName(text: string): boolean {
  return NAME.test(text);
}
