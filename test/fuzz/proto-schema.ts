/** What a generator of messages has to know of a proto3 file. */
export interface ProtoSchema {
  readonly messages: ReadonlyMap<string, readonly ProtoField[]>;
  /** Each enum's numbers. */
  readonly enums: ReadonlyMap<string, readonly number[]>;
  readonly methods: readonly ProtoMethod[];
}

export interface ProtoField {
  readonly name: string;
  readonly number: number;
  /** A scalar's name, or a message's or an enum's. */
  readonly type: string;
  readonly repeated: boolean;
  /** The type of the keys, for a map; `type` is its values'. */
  readonly mapKey?: string;
}

export interface ProtoMethod {
  /** `/runtime.v1.RuntimeService/Version` */
  readonly path: string;
  readonly request: string;
  readonly streams: boolean;
}

/** Reads as much of the language as the CRI's schema is written in: one statement a line, names unique without their scope. */
export function parseProto(text: string): ProtoSchema {
  const messages = new Map<string, ProtoField[]>();
  const enums = new Map<string, number[]>();
  const methods: ProtoMethod[] = [];
  const open: { kind: string; name: string }[] = [];
  const packageName = /^package ([\w.]+);/m.exec(text)?.[1] ?? '';
  for (const raw of text.split('\n')) {
    const line = raw.replace(/\/\/.*$/, '').trim();
    const [, kind = '', name = ''] = /^(message|enum|service|oneof) (\w+) *\{/.exec(line) ?? [];
    if (kind !== '') {
      if (kind === 'message') messages.set(name, []);
      if (kind === 'enum') enums.set(name, []);
      if (!line.endsWith('}')) open.push({ kind, name });
      continue;
    }
    if (line === '}') open.pop();
    const inside = open.findLast((scope) => scope.kind !== 'oneof');
    if (inside === undefined) continue;
    const method = /^rpc (\w+) *\((\w+)\) *returns *\((stream )?\w+\)/.exec(line);
    if (method !== null) {
      const [, rpc = '', request = '', stream] = method;
      methods.push({ path: `/${packageName}.${inside.name}/${rpc}`, request, streams: stream !== undefined });
    }
    const value = /^\w+ *= *(-?\d+)/.exec(line);
    if (inside.kind === 'enum' && value !== null) enums.get(inside.name)?.push(Number(value[1]));
    if (inside.kind !== 'message') continue;
    const field = /^(repeated |optional )?(?:map<(\w+), *([\w.]+)>|([\w.]+)) (\w+) *= *(\d+)/.exec(line);
    if (field === null) continue;
    const [, label, mapKey, mapValue, type = mapValue ?? '', fieldName = '', number] = field;
    messages.get(inside.name)?.push({
      name: fieldName,
      number: Number(number),
      type: type.slice(type.lastIndexOf('.') + 1),
      repeated: label === 'repeated ',
      ...(mapKey === undefined ? {} : { mapKey }),
    });
  }
  return { messages, enums, methods };
}
