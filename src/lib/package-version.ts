import packageJson from '../../package.json' with { type: 'json' };

/** The version of this package, which all of its programs have. */
export const PACKAGE_VERSION: string = packageJson.version;
