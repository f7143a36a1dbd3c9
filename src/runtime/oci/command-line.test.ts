import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandLine, environment } from './command-line.ts';

const image = { entrypoint: ['/entry', '-e'], cmd: ['cmd'] };

test('what runs, by the table of Kubernetes', () => {
  assert.deepEqual(commandLine(image), ['/entry', '-e', 'cmd']);
  assert.deepEqual(commandLine(image, ['/c']), ['/c']);
  assert.deepEqual(commandLine(image, [], ['a']), ['/entry', '-e', 'a']);
  assert.deepEqual(commandLine(image, ['/c'], ['a']), ['/c', 'a']);
  assert.deepEqual(commandLine({ cmd: ['sh'] }), ['sh']);
  assert.throws(() => commandLine({}), /no command/);
  assert.throws(() => commandLine({}, ['']), /empty string/);
});

test('the environment: defaults, then the image, then the container, each name once', () => {
  assert.deepEqual(environment({ image: [], container: [] }), [
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  ]);
  assert.deepEqual(
    environment({
      image: ['PATH=/bin', 'A=1=2', 'B', 'TERM=dumb'],
      container: [
        { name: 'A', value: 'x' },
        { name: 'A', value: 'y=z' },
        { name: 'C', value: '' },
      ],
      hostname: 'pod',
      home: '/home/me',
      terminal: true,
    }),
    ['PATH=/bin', 'TERM=dumb', 'HOSTNAME=pod', 'HOME=/home/me', 'A=y=z', 'B=', 'C='],
  );
  assert.throws(() => environment({ image: [], container: [{ name: 'A=B', value: '' }] }), /not a name/);
  assert.throws(() => environment({ image: [], container: [{ name: '', value: '' }] }), /not a name/);
});
