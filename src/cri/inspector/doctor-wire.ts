import type { DoctorReport, Finding } from '../../lib/doctor.ts';
import { internal } from '../../lib/errors.ts';
import { type DoctorResponse, Finding as WireFinding } from './gen/inspector.ts';

const PROBLEMS = ['orphan', 'missing', 'blocked', 'foreign'] as const;
const OUTCOMES = ['fixed', 'failed'] as const;

export function reportToWire({ instanceId, findings, notices }: DoctorReport): DoctorResponse {
  return { instanceId, findings: findings.map((finding) => WireFinding.fromPartial(finding)), notices: [...notices] };
}

export function reportFromWire({ instanceId, findings, notices }: DoctorResponse): DoctorReport {
  return { instanceId, findings: findings.map(findingFromWire), notices };
}

function findingFromWire({ problem, kind, key, message, action, outcome, error }: WireFinding): Finding {
  const knownProblem = PROBLEMS.find((known) => known === problem);
  if (knownProblem === undefined) throw internal(`the doctor found a problem of an unknown sort: ${problem}`);
  const knownOutcome = OUTCOMES.find((known) => known === outcome);
  return {
    problem: knownProblem,
    kind,
    key,
    message,
    ...(action === '' ? {} : { action }),
    ...(knownOutcome === undefined ? {} : { outcome: knownOutcome }),
    ...(error === '' ? {} : { error }),
  };
}
