/** Where the program is in the image, and how a container or a sandbox is made of it. */
export const TERM_PATH = '/term';

/**
 * A program of 200 bytes that waits for SIGTERM, SIGINT or SIGQUIT and ends with 0: what a pause is, and the quickest end that a container can come to, so
 * that what is measured is the runtime. As process 1 it blocks the signals, which is what makes the kernel deliver them. Undefined where we
 * have no machine code for it; busybox's shell takes its place then.
 */
export function termProgram(arch: string): Buffer | undefined {
  return arch === 'x64' ? elf(X86_64) : undefined;
}

const [SIGINT, SIGQUIT, SIGTERM] = [2, 3, 15];
const SIGNALS = (1 << (SIGINT - 1)) | (1 << (SIGQUIT - 1)) | (1 << (SIGTERM - 1));

/** System calls 14 (rt_sigprocmask), 128 (rt_sigtimedwait) until it returns a signal, 60 (exit). The signal set follows. */
const X86_64 = Buffer.from(
  [
    'b80e000000', // mov eax, 14
    '31ff', // xor edi, edi: SIG_BLOCK
    '488d352f000000', // lea rsi, [set]
    '31d2', // xor edx, edx
    '41ba08000000', // mov r10d, 8
    '0f05', // syscall
    'b880000000', // mov eax, 128
    '488d3d19000000', // lea rdi, [set]
    '31f6', // xor esi, esi
    '31d2', // xor edx, edx
    '41ba08000000', // mov r10d, 8
    '0f05', // syscall
    '85c0', // test eax, eax
    '78e4', // js to mov eax, 128: somebody froze us
    'b83c000000', // mov eax, 60
    '31ff', // xor edi, edi
    '0f05', // syscall
  ].join(''),
  'hex',
);

const BASE = 0x400000;
const HEADERS = 64 + 56;

/** One executable segment of everything. */
function elf(code: Buffer): Buffer {
  const set = Buffer.alloc(8);
  set.writeUInt32LE(SIGNALS);
  const size = HEADERS + code.length + set.length;
  const head = Buffer.alloc(HEADERS);
  head.write('7f454c46020101', 0, 'hex');
  head.writeUInt16LE(2, 16); // an executable
  head.writeUInt16LE(62, 18); // x86-64
  head.writeUInt32LE(1, 20);
  head.writeBigUInt64LE(BigInt(BASE + HEADERS), 24);
  head.writeBigUInt64LE(64n, 32); // program headers
  head.writeUInt16LE(64, 52);
  head.writeUInt16LE(56, 54);
  head.writeUInt16LE(1, 56);
  head.writeUInt32LE(1, 64); // to be loaded
  head.writeUInt32LE(5, 68); // read and execute
  head.writeBigUInt64LE(BigInt(BASE), 80);
  head.writeBigUInt64LE(BigInt(BASE), 88);
  head.writeBigUInt64LE(BigInt(size), 96);
  head.writeBigUInt64LE(BigInt(size), 104);
  head.writeBigUInt64LE(4096n, 112);
  return Buffer.concat([head, code, set]);
}
