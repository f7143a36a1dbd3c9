/** Where in an object: `['spec', 'containers', 0, 'name']`. */
export type FieldPath = readonly (string | number)[];

/** Kubernetes' own reasons (StatusCause.reason), plus ours for an unknown field. */
export type IssueReason =
  | 'FieldValueRequired'
  | 'FieldValueInvalid'
  | 'FieldValueDuplicate'
  | 'FieldValueNotSupported'
  | 'FieldValueForbidden'
  | 'FieldValueNotFound'
  | 'FieldValueTooLong'
  | 'FieldValueTypeInvalid'
  | 'FieldUnknown';

/** One thing that is wrong with an object. */
export interface Issue {
  readonly path: FieldPath;
  readonly reason: IssueReason;
  /** Without the path: `Required value`, `Invalid value: "x": must be …`. */
  readonly message: string;
}

/** A field that is known and has no effect here. */
export interface FieldWarning {
  readonly path: FieldPath;
  readonly message: string;
}

/** `spec.containers[0].name`; a key with dots or slashes in brackets: `metadata.labels[app/x]`. */
export function renderPath(path: FieldPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[\w$-]+$/.test(part)) text += text === '' ? part : `.${part}`;
    else text += `[${part}]`;
  }
  return text === '' ? '<root>' : text;
}

export function renderIssue(issue: Issue | FieldWarning): string {
  return `${renderPath(issue.path)}: ${issue.message}`;
}

const LONGEST_SHOWN = 80;

/** The value as an error message shows it: JSON, cut short. */
export function shown(value: unknown): string {
  // JSON has no word for undefined, whatever its type says.
  const text = (JSON.stringify(value) as string | undefined) ?? String(value);
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}

export function required(path: FieldPath, why?: string): Issue {
  return {
    path,
    reason: 'FieldValueRequired',
    message: why === undefined ? 'Required value' : `Required value: ${why}`,
  };
}

export function invalid(path: FieldPath, value: unknown, why: string): Issue {
  return { path, reason: 'FieldValueInvalid', message: `Invalid value: ${shown(value)}: ${why}` };
}

export function duplicate(path: FieldPath, value: unknown): Issue {
  return { path, reason: 'FieldValueDuplicate', message: `Duplicate value: ${shown(value)}` };
}

export function notSupported(path: FieldPath, value: unknown, supported: readonly string[]): Issue {
  return {
    path,
    reason: 'FieldValueNotSupported',
    message: `Unsupported value: ${shown(value)}: supported values: ${supported.map((each) => JSON.stringify(each)).join(', ')}`,
  };
}

export function forbidden(path: FieldPath, why: string): Issue {
  return { path, reason: 'FieldValueForbidden', message: `Forbidden: ${why}` };
}

export function missingTarget(path: FieldPath, value: unknown): Issue {
  return { path, reason: 'FieldValueNotFound', message: `Not found: ${shown(value)}` };
}

export function tooLong(path: FieldPath, maxBytes: number): Issue {
  return { path, reason: 'FieldValueTooLong', message: `Too long: may not be more than ${maxBytes} bytes` };
}
