/** Files to read, by the controller whose tree has them; '' for those that every cgroup of v2 has. */
export type WantedFiles = Readonly<Record<string, readonly string[]>>;

/** The text of a file that was read; undefined when it was not there. */
export type CgroupText = (controller: string, file: string) => string | undefined;
