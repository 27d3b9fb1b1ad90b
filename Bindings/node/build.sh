#!/bin/sh
# Builds build/kith.node against an installed libkith (`make lib`), and the headers that belong to this Node.js.
#
#   sh build.sh                                what `npm install` runs; libkith is found by pkg-config
#   sh build.sh ADDON FLAGS...                 into a file of your own, with flags of your own
set -eu
cd "$(dirname "$0")"
node=$(node -p 'process.execPath')
headers=
for folder in "$(dirname "$node")/../include/node" /usr/include/node /usr/include/nodejs/src; do
    if [ -f "$folder/node_api.h" ]; then headers=$folder; break; fi
done
if [ -z "$headers" ]; then echo "There are no headers of Node.js: install libnode-dev." >&2; exit 3; fi
addon=build/kith.node
if [ $# -gt 0 ]; then
    addon=$1
    shift
else
    mkdir -p build
    # shellcheck disable=SC2046
    set -- $(pkg-config --cflags --libs kith) "-Wl,-rpath,$(pkg-config --variable=libdir kith)"
fi
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -O2 -fPIC -shared "-I$headers" src/kith.c -o "$addon" "$@"
