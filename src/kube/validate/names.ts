import { isIP } from 'node:net';

/** Each check answers why the value will not do, or undefined. The words are Kubernetes', so that a search finds them. */
export type Check = (value: string) => string | undefined;

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const QUALIFIED = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

export const dnsLabel: Check = (value) => {
  if (value.length > 63) return 'must be no more than 63 characters';
  if (LABEL.test(value)) return undefined;
  return "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')";
};

export const dnsSubdomain: Check = (value) => {
  if (value.length > 253) return 'must be no more than 253 characters';
  if (SUBDOMAIN.test(value)) return undefined;
  return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')";
};

/** `name` or `prefix/name`, as label and annotation keys are. */
export const qualifiedName: Check = (value) => {
  const slash = value.indexOf('/');
  const prefix = slash < 0 ? undefined : value.slice(0, slash);
  const name = slash < 0 ? value : value.slice(slash + 1);
  if (prefix !== undefined) {
    if (prefix === '') return 'prefix part must be non-empty';
    const why = dnsSubdomain(prefix);
    if (why !== undefined) return `prefix part ${why}`;
  }
  if (name === '') return 'name part must be non-empty';
  if (name.length > 63) return 'name part must be no more than 63 characters';
  if (QUALIFIED.test(name)) return undefined;
  return "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc')";
};

export const labelValue: Check = (value) => {
  if (value.length > 63) return 'must be no more than 63 characters';
  if (value === '' || QUALIFIED.test(value)) return undefined;
  return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
};

export const portName: Check = (value) => {
  if (value.length > 15) return 'must be no more than 15 characters';
  if (!/^[a-z0-9-]+$/.test(value)) return 'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)';
  if (!/[a-z]/.test(value)) return 'must contain at least one letter (a-z)';
  if (value.includes('--')) return 'must not contain consecutive hyphens';
  if (value.startsWith('-') || value.endsWith('-')) return 'must not begin or end with a hyphen';
  return undefined;
};

/** Any printable ASCII except `=` (Kubernetes since 1.32). */
export const envName: Check = (value) =>
  /^[\x20-\x3c\x3e-\x7e]+$/.test(value)
    ? undefined
    : "a valid environment variable name must consist only of printable ASCII characters other than '='";

/** Keys of ConfigMaps and Secrets: they become file names. */
export const dataKey: Check = (value) => {
  if (value.length > 253) return 'must be no more than 253 characters';
  if (!/^[-._a-zA-Z0-9]+$/.test(value)) {
    return "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', or 'KEY_NAME', or 'key-name')";
  }
  if (value === '.') return "must not be '.'";
  if (value === '..' || value.startsWith('..')) return "must not start with '..'";
  return undefined;
};

/** A path inside a volume: relative, and never out of it. */
export const descendingPath: Check = (value) => {
  if (value.startsWith('/')) return 'must be a relative path';
  if (value.split('/').includes('..')) return "must not contain '..'";
  return undefined;
};

/** Of a file in a volume of ours, where names with two dots are ours. */
export const localPath: Check = (value) =>
  descendingPath(value) ?? (value.startsWith('..') ? "must not start with '..'" : undefined);

export const ipAddress: Check = (value) =>
  isIP(value) === 0 ? 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)' : undefined;

export const sysctlName: Check = (value) =>
  value.length <= 253 && /^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$/.test(value)
    ? undefined
    : 'must be a sysctl name such as net.ipv4.ip_forward';

const SIGNALS =
  'ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ';
const signals: ReadonlySet<string> = new Set(SIGNALS.split(' ').map((name) => `SIG${name}`));

export const signalName: Check = (value) => {
  if (signals.has(value) || value === 'SIGRTMIN' || value === 'SIGRTMAX') return undefined;
  const real = /^SIGRT(MIN\+|MAX-)([0-9]{1,2})$/.exec(value);
  const offset = Number(real?.[2] ?? Number.NaN);
  if (offset >= 1 && offset <= (real?.[1] === 'MIN+' ? 15 : 14)) return undefined;
  return 'must be the name of a signal, such as SIGTERM or SIGRTMIN+3';
};
