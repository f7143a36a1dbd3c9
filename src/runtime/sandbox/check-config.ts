import { isIP } from 'node:net';
import { isAbsolute } from 'node:path';
import { Protocol, type PodSandboxConfig, type PortMapping } from '../../cri/gen/api.ts';
import { checkSecurityValues, demandNoNul, demandValueOf } from '../../cri/field-checks.ts';
import { invalidArgument } from '../../lib/errors.ts';

const LARGEST_PORT = 65_535;
/** Of the kernel's, for a UTS namespace. */
const LONGEST_HOSTNAME_BYTES = 64;

/** What a sandbox's configuration cannot have on any host. Pure. Throws InvalidArgument that names the field. */
export function checkSandboxConfig(config: PodSandboxConfig): void {
  demandNoNul(config, 'config');
  checkHostname(config.hostname);
  const { logDirectory } = config;
  if (logDirectory !== '' && !isAbsolute(logDirectory)) {
    throw invalidArgument(`log_directory: ${JSON.stringify(logDirectory)} is not an absolute path`);
  }
  for (const [i, mapping] of config.portMappings.entries()) checkPortMapping(mapping, `port_mappings[${String(i)}]`);
  checkSecurityValues(config.linux?.securityContext);
}

/** It is a line of /etc/hostname. */
function checkHostname(hostname: string): void {
  if (/[\s\p{Cc}/]/u.test(hostname)) throw invalidArgument(`hostname ${JSON.stringify(hostname)} is no host name`);
  const bytes = Buffer.byteLength(hostname);
  if (bytes <= LONGEST_HOSTNAME_BYTES) return;
  throw invalidArgument(`hostname: ${String(bytes)} bytes, more than ${String(LONGEST_HOSTNAME_BYTES)}`);
}

function checkPortMapping({ protocol, containerPort, hostPort, hostIp }: PortMapping, field: string): void {
  demandValueOf(Protocol, protocol, `${field}.protocol`);
  for (const [name, port] of Object.entries({ container_port: containerPort, host_port: hostPort })) {
    if (port < 0 || port > LARGEST_PORT) throw invalidArgument(`${field}.${name}: ${String(port)} is no port`);
  }
  if (hostPort > 0 && containerPort === 0) throw invalidArgument(`${field}: host_port without a container_port`);
  if (hostIp !== '' && isIP(hostIp) === 0) throw invalidArgument(`${field}.host_ip: "${hostIp}" is no IP address`);
}
