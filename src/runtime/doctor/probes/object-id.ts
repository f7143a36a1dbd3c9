/** Of sandboxes and containers. */
export const OBJECT_ID = /^[0-9a-f]{64}$/;
