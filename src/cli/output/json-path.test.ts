import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { findAll, parsePath, parseTemplate, renderJson, renderText } from './json-path.ts';

const LIST = {
  kind: 'List',
  items: [
    {
      metadata: { name: 'one', labels: { app: 'web', 'example.com/tier': 'front' } },
      spec: { priority: 5, containers: [{ name: 'a', image: 'x:1' }] },
      status: { ready: true, addresses: [{ type: 'Old', address: '10.0.0.1' }] },
    },
    {
      metadata: { name: 'two', labels: { app: 'db' } },
      spec: {
        priority: 10,
        containers: [
          { name: 'b', image: 'y:2' },
          { name: 'c', image: 'z:3' },
        ],
      },
      status: { ready: false, addresses: [{ type: 'New', address: '10.0.0.2' }], note: null },
    },
  ],
  users: [{ name: 'e2e', user: { password: 'secret' } }, { name: 'me' }],
  empty: [],
};

/** Template and what it comes to; the first lines are the examples of kubectl's documentation, on other data. */
const TEMPLATES: readonly (readonly [template: string, text: string])[] = [
  ['kind is {.kind}', 'kind is List'],
  ["{['kind']}", 'List'],
  ['{["kind"]}', 'List'],
  ['{$.kind}', 'List'],
  ['{@.kind}', 'List'],
  ['{.items[*].metadata.name}', 'one two'],
  ['{.items[].metadata.name}', 'one'],
  ['{.items.*.metadata.name}', 'one two'],
  ['{..name}', 'one a two b c e2e me'],
  ['{.items[*]..image}', 'x:1 y:2 z:3'],
  ['{.users[0].name}', 'e2e'],
  ['{.users[-1].name}', 'me'],
  ['{.users[-1:].name}', 'me'],
  ['{.items[1].spec.containers[0:2].name}', 'b c'],
  ['{.items[1].spec.containers[:1].name}', 'b'],
  ['{.items[1].spec.containers[::2].name}', 'b'],
  ['{.users[0,1].name}', 'e2e me'],
  ["{.items[*]['metadata.name', 'spec.priority']}", 'one two 5 10'],
  ['{.users[?(@.name=="e2e")].user.password}', 'secret'],
  ["{.users[?(@.name=='e2e')].user.password}", 'secret'],
  ['{.users[?( @.name == "e2e" )].user.password}', 'secret'],
  ['{.users[?(@.user)].name}', 'e2e'],
  ['{.items[?(@.spec.priority>5)].metadata.name}', 'two'],
  ['{.items[?(@.spec.priority>=5)].metadata.name}', 'one two'],
  ['{.items[?(@.spec.priority<10)].metadata.name}', 'one'],
  ['{.items[?(@.spec.priority!=10)].metadata.name}', 'one'],
  ['{.items[?(@.status.ready==true)].metadata.name}', 'one'],
  ['{.items[?(@.metadata.labels.app=="a)b")].metadata.name}', ''],
  ['{.items[?(@.metadata.labels.example\\.com/tier=="front")].metadata.name}', 'one'],
  ['{.items[*].status.addresses[?(@.type=="New")].address}', '10.0.0.2'],
  ['{.items[0].metadata.labels.example\\.com/tier}', 'front'],
  ["{.items[0].metadata.labels['example\\.com/tier']}", 'front'],
  ["{.items[0].metadata.labels['example.com/tier']}", 'front'],
  ['{range .items[*]}[{.metadata.name}, {.spec.priority}] {end}', '[one, 5] [two, 10] '],
  ['{range .items[*]}{.metadata.name}{"\\t"}{.spec.priority}{"\\n"}{end}', 'one\t5\ntwo\t10\n'],
  ['{range .items[*]}{.metadata.name}:{range .spec.containers[*]} {.name}{end};{end}!', 'one: a;two: b c;!'],
  ['{range .empty[*]}{.x}{end}done', 'done'],
  ['{.items[0].spec.containers}', '[{"name":"a","image":"x:1"}]'],
  ['{.items[0].metadata.labels}', '{"app":"web","example.com/tier":"front"}'],
  ['{.items[1].status.note}', ''],
  ['{.nothing.here}', ''],
  ['{.kind.deeper}', ''],
  ['{\'it\'\'s\'}{"a \\"b\\""}', 'itsa "b"'],
  ['plain', 'plain'],
  ['{.kind}}', 'List}'],
  ['', ''],
  // Without any braces kubectl prints the template itself, which nobody means.
  ['.items[*].metadata.name', 'one two'],
];

for (const [template, text] of TEMPLATES) {
  test(`jsonpath=${template}`, () => {
    assert.equal(renderText(parseTemplate(template), LIST), text);
  });
}

const MISTAKES: readonly (readonly [template: string, said: RegExp])[] = [
  ['{.items', /unclosed "\{"/],
  ['{.items[0}', /unclosed "\["/],
  ['{.items[?(@.a=="b")}', /expected "\]"/],
  ['{.items[?(@.a=="b]}', /unclosed quotation mark/],
  ['{.items[a]}', /"a" is no index/],
  ['{.items[::0]}', /the step must be at least 1/],
  ['{.items[?(@.a=~"b")]}', /"=~" is no comparison \(==, !=, <, <=, >, >=\)/],
  ['{range .items[*]}{.x}', /"range" without "\{end\}"/],
  ['{.x}{end}', /"\{end\}" without "\{range/],
  ['{nonsense}', /"nonsense" is neither a path \(\.nonsense\?\) nor "range" or "end"/],
  ['{.items[5].x}', /array index out of bounds: index 5, length 2/],
  ['{.empty[0]}', /array index out of bounds: index 0, length 0/],
  ['{.items[0:9]}', /array index out of bounds: index 8, length 2/],
  ['{.kind[0]}', /a string is not an array/],
  ['{.items[?(@..name=="a")].x}', /more than one value/],
];

for (const [template, said] of MISTAKES) {
  test(`jsonpath=${template} is wrong`, () => {
    assert.throws(() => renderText(parseTemplate(template), LIST), { kind: 'InvalidArgument', message: said });
  });
}

test('as JSON: each expression is a list', () => {
  assert.equal(renderJson(parseTemplate('{.items[*].metadata.name}'), LIST), '[\n    "one",\n    "two"\n]\n');
  assert.equal(renderJson(parseTemplate('{.nothing}'), LIST), '[]\n');
});

test('a path by itself may leave out what a template needs', () => {
  for (const path of ['.metadata.name', 'metadata.name', '{.metadata.name}', '{metadata.name}', '$.metadata.name']) {
    assert.deepEqual(findAll(parsePath(path), LIST.items[0]), ['one'], path);
  }
  for (const path of ['', '{.a}{.b}', '{range .a}{end}', 'text {.a}']) {
    assert.throws(() => parsePath(path), { kind: 'InvalidArgument' }, path);
  }
});

test('whatever it is given, it answers or says what is wrong', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '.',
    '..',
    '*',
    '?(',
    ')',
    "'",
    '"',
    '@',
    'a',
    '0',
    ':',
    ',',
    '\\',
    ' ',
    'range',
    'end',
    '==',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 14 }), (parts) => {
      try {
        renderText(parseTemplate(parts.join('')), LIST);
      } catch (error) {
        assert.equal((error as { kind?: string }).kind, 'InvalidArgument', String(error));
      }
    }),
    { numRuns: 3000 },
  );
});
