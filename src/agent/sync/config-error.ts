import { GantryError } from '../../lib/errors.ts';

/** The pod asks for something that is not there (yet): its container waits as CreateContainerConfigError. */
export class ConfigError extends GantryError {
  constructor(message: string) {
    super('FailedPrecondition', message);
  }
}
