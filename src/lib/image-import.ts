/** Images that are to be taken from a file or a folder: what the API and the runtime's own socket are asked for alike. */
export interface ImageImport {
  /** Absolute, on the daemon's machine. */
  readonly path: string;
  /** `archive`: of docker's or OCI's; `layout`: an OCI layout's folder; both are told apart by their content. `rootfs`: a folder or a tar. */
  readonly source: 'archive' | 'layout' | 'rootfs';
  /** Needed for a root filesystem; what follows is for one alone. */
  readonly name?: string;
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  /** `NAME=VALUE` */
  readonly env?: readonly string[];
  readonly workingDir?: string;
  readonly user?: string;
}
