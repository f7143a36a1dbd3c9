import js from '@eslint/js';
import tseslint from 'typescript-eslint';

const time = [
  { name: 'setTimeout', message: 'Take a Clock (lib/clock): waits are tested in milliseconds.' },
  { name: 'setInterval', message: 'Take a Clock (lib/clock): waits are tested in milliseconds.' },
];
const recursiveDelete = {
  selector: 'CallExpression[callee.property.name=/^(rm|rmSync|rmdirSync)$/]',
  message: 'Only linux/safe-remove deletes trees.',
};
const clockReads = {
  selector:
    'CallExpression[callee.object.name="Date"][callee.property.name="now"], CallExpression[callee.object.name="performance"][callee.property.name="now"], NewExpression[callee.name="Date"][arguments.length=0]',
  message: 'Take a Clock (lib/clock).',
};
const httpAsModule = ['node:http', 'node:https', 'http', 'https'].map((name) => ({
  name,
  allowTypeImports: true,
  message: 'Take it from lib/node-http: importing the module costs each process 20 to 45 ms.',
}));

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', 'src/**/gen/', 'test/planted/'] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      'no-restricted-globals': ['error', ...time],
      'no-restricted-syntax': ['error', recursiveDelete, clockReads],
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['**/*.test.ts'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', { paths: httpAsModule }] },
  },
  {
    files: ['src/lib/clock.ts'],
    rules: { 'no-restricted-globals': 'off', 'no-restricted-syntax': 'off' },
  },
  {
    files: ['**/*.test.ts', 'test/**/*.ts', 'scripts/**/*.ts'],
    rules: {
      // node:test's describe/it/test return promises that the runner itself awaits.
      '@typescript-eslint/no-floating-promises': [
        'error',
        {
          allowForKnownSafeCalls: [
            {
              from: 'package',
              name: ['test', 'it', 'describe', 'suite', 'before', 'after', 'beforeEach', 'afterEach'],
              package: 'node:test',
            },
          ],
        },
      ],
      '@typescript-eslint/no-non-null-assertion': 'off',
      'no-restricted-globals': 'off',
      'no-restricted-syntax': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.cjs', '**/*.mjs'],
    ...tseslint.configs.disableTypeChecked,
    languageOptions: { globals: { module: 'writable' }, parserOptions: { projectService: false } },
  },
);
