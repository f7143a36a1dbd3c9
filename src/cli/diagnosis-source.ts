import { errnoOf, GantryError, isKind, messageOf } from '../lib/errors.ts';
import type { CliContext } from './context.ts';
import type { DiagnosisSource } from './cri-diagnosis.ts';

/**
 * Asks the API; the CRI socket where that was named, or where nobody answers at the API's usual place: that is how a Gantry with
 * `--runtime-only` is found.
 */
export async function askGantry<T>(
  context: CliContext,
  runtimeEndpoint: string | undefined,
  ask: (source: DiagnosisSource) => Promise<T>,
): Promise<T> {
  if (runtimeEndpoint !== undefined) return await ask(await overCri(context, runtimeEndpoint));
  const { gantry } = await context.api();
  try {
    return await ask(gantry);
  } catch (error) {
    if (context.apiWasNamed || !nobodyAnswers(error)) throw error;
    try {
      return await ask(await overCri(context, undefined));
    } catch (criError) {
      if (!isKind(criError, 'Unavailable')) throw criError;
      throw new GantryError('Unavailable', `${messageOf(error)}; nor does anybody at the CRI socket`, {
        cause: criError,
      });
    }
  }
}

function nobodyAnswers(error: unknown): boolean {
  if (!isKind(error, 'Unavailable')) return false;
  const cause = (error as GantryError).cause;
  return ['ENOENT', 'ECONNREFUSED'].includes(errnoOf(cause) ?? '');
}

async function overCri(context: CliContext, endpoint: string | undefined): Promise<DiagnosisSource> {
  // gRPC is loaded only by who needs it.
  const { criDiagnosis } = await import('./cri-diagnosis.ts');
  return criDiagnosis(await context.cri(endpoint));
}
