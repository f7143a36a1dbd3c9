/** What the runtime says that it can do, for a pod without a runtime class. */
export interface RuntimeFeatures {
  readonly userNamespaces: boolean;
  readonly recursiveReadOnlyMounts: boolean;
  /** Knows `supplementalGroupsPolicy`. */
  readonly supplementalGroupsPolicy: boolean;
}

/** Of a runtime that says nothing: it would leave out in silence what it does not know. */
export const NO_FEATURES: RuntimeFeatures = {
  userNamespaces: false,
  recursiveReadOnlyMounts: false,
  supplementalGroupsPolicy: false,
};
