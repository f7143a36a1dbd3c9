/** Kubernetes' metav1.Time: RFC 3339 in whole seconds. */
export function rfc3339Seconds(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, 19)}Z`;
}
