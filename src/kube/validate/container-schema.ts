import { descendingPath, dnsLabel, dnsSubdomain, envName, ipAddress, portName, signalName } from './names.ts';
import {
  checked,
  flag,
  has,
  integer,
  list,
  map,
  must,
  object,
  oneOf,
  quantity,
  refuse,
  refusePresent,
  text,
  warn,
  type Fields,
} from './schema.ts';

/** The container half of the v1 pod specification: what is acted on, what is refused, what is only warned of. */

const keyRef: Fields = { name: must(checked(dnsSubdomain)), key: must(text), optional: has(flag) };
const objectRef: Fields = { name: must(checked(dnsSubdomain)), optional: has(flag) };

const envVar: Fields = {
  name: must(checked(envName)),
  value: has(text),
  valueFrom: has(
    object({
      configMapKeyRef: has(object(keyRef)),
      secretKeyRef: has(object(keyRef)),
      fieldRef: has(object({ apiVersion: has(oneOf('v1')), fieldPath: must(text) })),
      resourceFieldRef: has(object({ containerName: has(text), resource: must(text), divisor: has(quantity) })),
      fileKeyRef: refuse('environment from files of a volume'),
    }),
  ),
};

const envFrom: Fields = {
  prefix: has(text),
  configMapRef: has(object(objectRef)),
  secretRef: has(object(objectRef)),
};

const containerPort: Fields = {
  containerPort: must(integer(1, 65535)),
  hostPort: has(integer(0, 65535)),
  hostIP: has(checked((value) => (value === '' ? undefined : ipAddress(value)))),
  name: has(checked((value) => (value === '' ? undefined : portName(value)))),
  protocol: has(oneOf('TCP', 'UDP', 'SCTP')),
};

const volumeMount: Fields = {
  name: must(text),
  mountPath: must(text),
  readOnly: has(flag),
  mountPropagation: has(oneOf('None', 'HostToContainer', 'Bidirectional')),
  recursiveReadOnly: has(oneOf('Disabled', 'IfPossible', 'Enabled')),
  // Of which kinds of volumes, the rules say.
  subPath: has(checked((value) => (value === '' ? undefined : descendingPath(value)))),
  subPathExpr: refuse('mounting a part of a volume'),
  bindMountOptions: refuse('options of bind mounts'),
};

export const execAction: Fields = { command: has(list(text)) };

const lifecycle: Fields = {
  postStart: refuse('hooks after the start'),
  preStop: has(
    object({
      exec: has(object(execAction)),
      sleep: has(object({ seconds: must(integer(0)) })),
      httpGet: refusePresent('hooks over HTTP; use exec'),
      tcpSocket: refusePresent('hooks over TCP; use exec'),
    }),
  ),
  stopSignal: has(checked(signalName)),
};

/** Of seccomp and of AppArmor; which go with `localhostProfile`, the rules say. */
export const confinement = object({
  type: must(oneOf('Localhost', 'RuntimeDefault', 'Unconfined')),
  localhostProfile: has(text),
});

export const seLinuxOptions = refuse('SELinux labels');
export const windowsOptions = refuse('Windows containers');

const securityContext: Fields = {
  allowPrivilegeEscalation: has(flag),
  appArmorProfile: has(confinement),
  capabilities: has(object({ add: has(list(text)), drop: has(list(text)) })),
  privileged: has(flag),
  procMount: has(oneOf('Default', 'Unmasked')),
  readOnlyRootFilesystem: has(flag),
  runAsGroup: has(integer(0, 0x7fff_ffff)),
  runAsNonRoot: has(flag),
  runAsUser: has(integer(0, 0x7fff_ffff)),
  seLinuxOptions,
  seccompProfile: has(confinement),
  windowsOptions,
};

const resources: Fields = {
  limits: has(map(quantity)),
  requests: has(map(quantity)),
  claims: refuse('dynamic resource allocation'),
};

export const container: Fields = {
  name: must(checked(dnsLabel)),
  image: must(text),
  imagePullPolicy: has(oneOf('Always', 'IfNotPresent', 'Never')),
  command: has(list(text)),
  args: has(list(text)),
  workingDir: has(text),
  env: has(list(object(envVar))),
  envFrom: has(list(object(envFrom))),
  ports: has(list(object(containerPort))),
  resources: has(object(resources)),
  resizePolicy: warn('resources do not change while a container runs'),
  volumeMounts: has(list(object(volumeMount), 'mountPath')),
  volumeDevices: refuse('block volumes'),
  lifecycle: has(object(lifecycle)),
  livenessProbe: refuse('probes'),
  readinessProbe: refuse('probes'),
  startupProbe: refuse('probes'),
  restartPolicy: refuse('restart policies of single containers'),
  restartPolicyRules: refuse('restart policies of single containers'),
  securityContext: has(object(securityContext)),
  stdin: has(flag),
  stdinOnce: has(flag),
  tty: has(flag),
  terminationMessagePath: warn('termination messages are not read', '/dev/termination-log'),
  terminationMessagePolicy: warn('termination messages are not read', 'File'),
};
