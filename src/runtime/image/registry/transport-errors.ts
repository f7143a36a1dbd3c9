import { GantryError, type ErrorKind } from '../../../lib/errors.ts';

interface Verdict {
  readonly kind: ErrorKind;
  readonly reason: string;
  readonly text: string;
  readonly retryable?: boolean;
}

const UNTRUSTED: Verdict = {
  kind: 'FailedPrecondition',
  reason: 'tls-untrusted',
  text: 'its certificate is not trusted: put its authority (ca) or skip_verify into hosts.toml of the registry configuration',
};

const NO_TLS: Verdict = {
  kind: 'FailedPrecondition',
  reason: 'tls',
  text: 'no TLS there: if it speaks plain http, say so in hosts.toml (server = "http://…")',
};

const BROKEN: Verdict = {
  kind: 'Unavailable',
  reason: 'connection-broken',
  text: 'the connection broke',
  retryable: true,
};

const VERDICTS: Readonly<Record<string, Verdict>> = {
  ENOTFOUND: { kind: 'Unavailable', reason: 'unknown-host', text: 'unknown host: its name has no address' },
  EAI_AGAIN: {
    kind: 'Unavailable',
    reason: 'dns',
    text: 'its name cannot be looked up now (DNS does not answer)',
    retryable: true,
  },
  ECONNREFUSED: { kind: 'Unavailable', reason: 'refused', text: 'nobody answers at this address (connection refused)' },
  EHOSTUNREACH: { kind: 'Unavailable', reason: 'unreachable', text: 'the host cannot be reached' },
  ENETUNREACH: { kind: 'Unavailable', reason: 'unreachable', text: 'the network cannot be reached' },
  ETIMEDOUT: { kind: 'Unavailable', reason: 'timeout', text: 'no answer', retryable: true },
  ECONNRESET: BROKEN,
  EPIPE: BROKEN,
  ECONNABORTED: BROKEN,
  ERR_STREAM_PREMATURE_CLOSE: BROKEN,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  CERT_HAS_EXPIRED: { ...UNTRUSTED, text: 'its certificate has expired' },
  CERT_NOT_YET_VALID: { ...UNTRUSTED, text: "its certificate is not valid yet (is this machine's clock right?)" },
  ERR_TLS_CERT_ALTNAME_INVALID: { ...UNTRUSTED, text: 'its certificate is for another host' },
  EPROTO: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_INVALID_CHAR: {
    kind: 'InvalidArgument',
    reason: 'header',
    text: 'a header contains characters that cannot be sent',
  },
};

/** A failed request in a person's words: which host, what is wrong, what to do. */
export function transportError(host: string, error: unknown): GantryError {
  if (error instanceof GantryError) return error;
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  const { kind, reason, text, retryable = false } = VERDICTS[code] ?? verdictOn(code, error);
  return new GantryError(kind, `registry ${host}: ${text}`, { cause: error, details: { reason, host, retryable } });
}

function verdictOn(code: string, error: unknown): Verdict {
  if (code.startsWith('HPE_')) {
    return { kind: 'Unavailable', reason: 'not-http', text: 'what answers there does not speak http' };
  }
  if (code === 'ERR_PROXY_TUNNEL') {
    // The proxy's own words are the line that it answered with; what stands before may have its password.
    const said = /HTTP\/1\.\d (.+)$/.exec(String(error))?.[1];
    const text = `the proxy of the environment does not get through to it${said === undefined ? '' : ` (${said})`}`;
    return { kind: 'Unavailable', reason: 'proxy', text };
  }
  const text = `the request failed (${code === '' ? String(error) : code})`;
  return { kind: 'Unavailable', reason: 'request-failed', text };
}

export function isRetryable(error: unknown): boolean {
  return error instanceof GantryError && error.details['retryable'] === true;
}
