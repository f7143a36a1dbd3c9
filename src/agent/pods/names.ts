/** Labels and annotations that every CRI runtime and tool knows (kubelet's), and two of our own. */
export const LABEL_POD_NAME = 'io.kubernetes.pod.name';
export const LABEL_POD_NAMESPACE = 'io.kubernetes.pod.namespace';
export const LABEL_POD_UID = 'io.kubernetes.pod.uid';
export const LABEL_CONTAINER_NAME = 'io.kubernetes.container.name';

export const ANNOTATION_HASH = 'io.kubernetes.container.hash';
export const ANNOTATION_RESTART_COUNT = 'io.kubernetes.container.restartCount';
export const ANNOTATION_MESSAGE_PATH = 'io.kubernetes.container.terminationMessagePath';
export const ANNOTATION_MESSAGE_POLICY = 'io.kubernetes.container.terminationMessagePolicy';
export const ANNOTATION_PORTS = 'io.kubernetes.container.ports';
export const ANNOTATION_PRE_STOP = 'io.kubernetes.container.preStopHandler';
export const ANNOTATION_POD_GRACE = 'io.kubernetes.pod.terminationGracePeriod';
/** How many restarts in a row came before this one without ten good minutes between: the crash back-off's memory. */
export const ANNOTATION_CRASHES = 'io.gantry.container.crashes';
/** The boot that the container was made in: its crashes say nothing about the machine as it is after another one. */
export const ANNOTATION_BOOT = 'io.gantry.container.boot';

export const ANNOTATION_CONFIG_SOURCE = 'kubernetes.io/config.source';
export const ANNOTATION_CONFIG_SEEN = 'kubernetes.io/config.seen';

/** Which agent a sandbox belongs to. Only what carries this agent's id is ever ended as an orphan: a kubelet or a person may use the runtime too. */
export const LABEL_AGENT = 'io.gantry.agent';
