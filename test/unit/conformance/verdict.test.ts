import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { DIGEST_SPEC, LEFT_OUT, leftOutFor } from '../../conformance/left-out.ts';
import { readSpecReport, type SpecResult } from '../../conformance/spec-report.ts';
import { counts, judge } from '../../conformance/verdict.ts';

const rules = { omitted: [], withoutExcuse: [], strict: true };
const passed: SpecResult = { name: 'Pod runs', outcome: { kind: 'passed' }, seconds: 1 };

describe('the report of the conformance suite', () => {
  it('is read: containers and leaf make the name, what failed outside the specs counts', () => {
    const spec = (text: string, State: string, more: object = {}): object => ({
      ContainerHierarchyTexts: ['[k8s.io] Networking', 'runtime'],
      LeafNodeType: 'It',
      LeafNodeText: text,
      State,
      RunTime: 1_500_000_000,
      ...more,
    });
    const suite = {
      SpecialSuiteFailureReasons: null,
      SpecReports: [
        { ContainerHierarchyTexts: null, LeafNodeType: 'BeforeSuite', LeafNodeText: '', State: 'passed', RunTime: 0 },
        spec('sets a name', 'passed'),
        spec('has DNS', 'failed', { Failure: { Message: 'no such file\n' } }),
        spec('is asked for', 'skipped', { Failure: { Message: 'not here' } }),
        spec('is a benchmark', 'skipped'),
        spec('hangs', 'timedout'),
        { ContainerHierarchyTexts: null, LeafNodeType: 'AfterSuite', LeafNodeText: '', State: 'panicked', RunTime: 0 },
      ],
    };
    assert.deepEqual(
      readSpecReport(JSON.stringify([suite])).map(({ name, outcome }) => [name, outcome]),
      [
        ['Networking runtime sets a name', { kind: 'passed' }],
        ['Networking runtime has DNS', { kind: 'failed', message: 'no such file' }],
        ['Networking runtime is asked for', { kind: 'skipped', reason: 'not here' }],
        ['Networking runtime is a benchmark', { kind: 'not selected' }],
        ['Networking runtime hangs', { kind: 'failed', message: 'timedout' }],
        ['AfterSuite', { kind: 'failed', message: 'panicked' }],
      ],
    );
  });

  it('of a suite that was cut off before any spec failed is a failure', () => {
    const cut = { SpecialSuiteFailureReasons: ['Interrupted by Timeout'], SpecReports: [] };
    const results = readSpecReport(JSON.stringify([cut]));
    assert.deepEqual(results[0]?.outcome, { kind: 'failed', message: 'Interrupted by Timeout' });
    const failedOnly = { SpecialSuiteFailureReasons: ['Detected 2 failed specs'], SpecReports: [] };
    assert.deepEqual(readSpecReport(JSON.stringify([failedOnly])), []);
  });
});

describe('the verdict on a conformance run', () => {
  it('is good with only specs left out that the list names', () => {
    const nri: SpecResult = { name: 'NRI hook waits', outcome: { kind: 'skipped', reason: 'no socket' }, seconds: 0 };
    const verdict = judge([passed, nri, { ...nri, name: 'NRI again' }], rules);
    assert.equal(counts(verdict), '1 passed, 0 failed, 2 skipped');
    assert.ok(verdict.ok);
    assert.match(verdict.lines.join('\n'), /^left out NRI, 2 specs: .*\(no socket\)$/);
  });

  it('is bad with a spec that skips itself for another reason, if Gantry is tested, and names it', () => {
    const other: SpecResult = {
      name: 'Volume mounts',
      outcome: { kind: 'skipped', reason: 'not supported' },
      seconds: 0,
    };
    assert.equal(judge([passed, other], rules).ok, false);
    assert.ok(judge([passed, other], { ...rules, strict: false }).ok);
    assert.deepEqual(judge([passed, other], rules).lines, ['skipped Volume mounts: not supported']);
  });

  it('is bad with a spec left out although what it needs is there', () => {
    const name = 'Security Context UserNamespaces POD';
    const skipped: SpecResult = { name, outcome: { kind: 'skipped', reason: 'no handler' }, seconds: 0 };
    assert.ok(judge([passed, skipped], rules).ok);
    assert.equal(judge([passed, skipped], { ...rules, withoutExcuse: ['user namespaces'] }).ok, false);
  });

  it('counts what the run left out by its flags, and not what was not asked for', () => {
    const omitted: SpecResult = { name: `${DIGEST_SPEC} [x]`, outcome: { kind: 'not selected' }, seconds: 0 };
    const benchmark: SpecResult = { name: 'Pod benchmark', outcome: { kind: 'not selected' }, seconds: 0 };
    assert.equal(judge([passed, omitted, benchmark], { ...rules, omitted: [DIGEST_SPEC] }).skipped, 1);
    assert.equal(judge([passed, omitted, benchmark], rules).skipped, 0);
  });

  it('is bad with a failure, which it tells, and when nothing ran', () => {
    const failed: SpecResult = {
      name: 'Pod stops',
      outcome: { kind: 'failed', message: `\n${'line\n'.repeat(20)}` },
      seconds: 2,
    };
    const verdict = judge([passed, failed], rules);
    assert.equal(verdict.ok, false);
    assert.equal(verdict.lines[0], 'FAILED  Pod stops (2.0 s)');
    assert.equal(verdict.lines.length, 1 + 8 + 1, 'the message is cut');
    const withInnards = judge(
      [{ ...failed, outcome: { kind: 'failed', message: 'no route\n  {\n    s: nil\n' } }],
      rules,
    );
    assert.deepEqual(withInnards.lines.slice(1), ['        no route']);
    assert.equal(judge([], rules).ok, false);
  });

  it('says what to do where images cannot be had', () => {
    const message = 'failed to pull image\nUnexpected error:\n    registry far.invalid: unknown host';
    const failed: SpecResult = { name: 'Pod runs', outcome: { kind: 'failed', message }, seconds: 1 };
    assert.match(
      judge([failed, failed], rules).lines.at(-1) ?? '',
      /^images that could not be had \(2 specs\): --mirror /,
    );
    assert.equal(judge([passed], rules).lines.length, 0);
  });
});

describe('the list of what is left out', () => {
  it('is what docs/conformance.md says', async () => {
    const text = await readFile(new URL('../../../docs/conformance.md', import.meta.url), 'utf8');
    const rows = text
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .map(([, subject, specs, when, why]) => ({ subject, specs, when, why }))
      .filter(({ specs }) => /^\d+$/.test(specs ?? ''));
    assert.deepEqual(
      rows,
      LEFT_OUT.map(({ subject, specs, when, why }) => ({ subject, specs: String(specs), when, why })),
    );
  });

  it('has words that are true of every runtime that is tested', () => {
    for (const { why } of LEFT_OUT) assert.doesNotMatch(why, /gantry/i);
  });

  it('puts a spec under one subject', () => {
    assert.equal(leftOutFor('NRI pod sandbox lifecycle should receive')?.subject, 'NRI');
    assert.equal(leftOutFor(`${DIGEST_SPEC} [Conformance]`)?.subject, 'image by digest');
    assert.equal(leftOutFor('Image Manager public image with tag should be pulled and removed'), undefined);
  });
});
