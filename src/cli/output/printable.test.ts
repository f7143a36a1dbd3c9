import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printable, printableLines } from './printable.ts';

test('what would break a line, move the cursor or turn text round is shown and not done', () => {
  const cases: readonly [text: string, shown: string][] = [
    ['plain, ümläut, 漢字, 🙂 and \\n', 'plain, ümläut, 漢字, 🙂 and \\n'],
    ['/a\n/b', '/a\\n/b'],
    ['a\r\tb', 'a\\r\\tb'],
    ['\u001b[31mred', '\\u001b[31mred'],
    ['\u0000\u007f\u009b', '\\u0000\\u007f\\u009b'],
    ['a\u2028b\u202ec\u2066', 'a\\u2028b\\u202ec\\u2066'],
  ];
  for (const [text, shown] of cases) assert.equal(printable(text), shown);
});

test('of text in lines the lines stay', () => {
  assert.deepEqual(printableLines('one\ntwo\u001b\n'), ['one', 'two\\u001b']);
  assert.deepEqual(printableLines('one\r\ntwo'), ['one', 'two']);
  assert.deepEqual(printableLines(''), ['']);
});
