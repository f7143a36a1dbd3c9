/** The arrows between the rooms, as ARCHITECTURE.md draws them. Each rule is proved by a planted violation (test/unit/import-rules.test.ts). */
const only = (room, allowed) => ({
  name: `${room}-imports`,
  comment: `src/${room} may import only: ${[room, ...allowed].join(', ')}`,
  severity: 'error',
  from: { path: `^src/${room}/` },
  to: { path: '^src/', pathNot: `^src/(${[room, ...allowed].join('|')})/` },
});
const leaves = ['cdi', 'image', 'snapshot', 'network', 'oci', 'stats', 'streaming'];

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'no-test-support-in-source',
      severity: 'error',
      from: { path: '^src/', pathNot: '\\.test\\.ts$' },
      to: { path: '^(test|scripts)/' },
    },
    {
      name: 'no-test-in-source',
      severity: 'error',
      from: { path: '^src/', pathNot: '\\.test\\.ts$|(^|/)fake-[^/]*\\.ts$' },
      to: { path: '\\.test\\.ts$|(^|/)fake-[^/]*\\.ts$' },
    },
    only('lib', []),
    only('linux', ['lib']),
    only('cri', ['lib']),
    only('journal', ['lib']),
    only('runtime', ['lib', 'linux', 'cri', 'journal']),
    only('kube', ['lib', 'journal']),
    only('agent', ['lib', 'linux', 'cri', 'kube', 'journal']),
    only('cli', ['lib', 'cri', 'kube', 'journal']),
    ...leaves.map((leaf) => ({
      name: `runtime-leaf-${leaf}`,
      comment: 'leaves of runtime never import one another; open-storage.ts and make-parts.ts wire them',
      severity: 'error',
      from: { path: `^src/runtime/${leaf}/`, pathNot: '\\.test\\.ts$' },
      to: { path: `^src/runtime/(${leaves.filter((other) => other !== leaf).join('|')})/` },
    })),
    {
      name: 'client-library-off-the-start-path',
      comment: '@kubernetes/client-node costs 300 ms to import',
      severity: 'error',
      from: { path: '^src/cli/' },
      to: { path: '@kubernetes/client-node' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js', '.json'] },
  },
};
