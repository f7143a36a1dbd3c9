#!/bin/sh
# Makes the TypeScript of the protobuf schemas. Its output is committed, so only who changes a schema runs this:
#   src/cri/schema/api.proto           -> src/cri/gen/api.ts
#   src/cri/inspector/inspector.proto  -> src/cri/inspector/gen/inspector.ts
# Needs protoc (Debian: apt-get install protobuf-compiler; nothing else in Gantry uses it) and ts-proto (a dev dependency).
set -eu
cd "$(dirname "$0")/.."

if ! command -v protoc >/dev/null; then
  echo 'gen-cri: protoc is missing: apt-get install protobuf-compiler' >&2
  exit 1
fi

# Only what Node can strip: no enum, and import paths with their ending. int64 is bigint, because nanoseconds do not fit a
# double. The clients and servers of ts-proto are not used: ours are made from the service definitions alone.
options=outputServices=grpc-js,outputClientImpl=false,useExactTypes=false,esModuleInterop=true,enumsAsLiterals=true
options=$options,importSuffix=.ts,forceLong=bigint,env=node,outputJsonMethods=false,unrecognizedEnum=false

# generate FROM-FOLDER FILE TO-FOLDER
generate() {
  mkdir -p "$3"
  protoc --plugin=protoc-gen-ts_proto=node_modules/ts-proto/protoc-gen-ts_proto \
    --ts_proto_out="$3" --ts_proto_opt="$options" -I "$1" "$1/$2"
}

generate src/cri/schema api.proto src/cri/gen
generate src/cri/inspector inspector.proto src/cri/inspector/gen
