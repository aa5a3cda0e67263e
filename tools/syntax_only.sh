#!/bin/sh
# A compiler launcher that only checks: the compiler parses, and what it should have made is an empty file.
"$@" -fsyntax-only || exit 1
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && touch "$2"
  shift
done
