#!/usr/bin/env bash
# Names every system package that is missing; as root on a Debian-like machine, installs them instead.
set -eu

missing=()
need_file() { # package, a path glob that it brings
  compgen -G "$2" > /dev/null || missing+=("$1")
}
need_version() { # command, package, least version, the version it has
  if [ -z "$4" ] || [ "$(printf '%s\n%s\n' "$3" "$4" | sort -V | head -n1)" != "$3" ]; then
    missing+=("$2")
    echo "need $1 >= $3, found ${4:-none}" >&2
  fi
}

python=${PYTHON:-python3}
need_version g++ g++ 12 "$(g++ -dumpfullversion 2> /dev/null || true)"
need_version cmake cmake 3.25 "$(cmake --version 2> /dev/null | sed -n '1s/.*version //p')"
need_version "$python" python3 3.11 "$("$python" -c 'import platform; print(platform.python_version())' 2> /dev/null || true)"
need_file libgtest-dev '/usr/lib/*/libgtest.a'
need_file libbenchmark-dev '/usr/lib/*/libbenchmark*.so'
need_file nlohmann-json3-dev '/usr/include/nlohmann/json.hpp'
need_file libfmt-dev '/usr/include/fmt/format.h'
"$python" - << 'PY' 2> /dev/null || missing+=(python3-dev)
import os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
PY
"$python" -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)

[ ${#missing[@]} -eq 0 ] && exit 0
echo "missing system packages: ${missing[*]}" >&2
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null && exec "$0"
fi
echo "install them, for example: sudo apt-get install ${missing[*]}" >&2
exit 1
