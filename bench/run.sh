#!/usr/bin/env bash
# What ./run bench runs after the build: makes the peers' Python environment in .deps/bench (once), then measures.
# `./run bench --no-peers` leaves the peers, and their download of 2.6 GB, out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for part in common downloads; do
  # shellcheck source=tools/setup/common.sh
  source "tools/setup/$part.sh"
done

lock=bench/peers/requirements.lock
site="$deps_dir/bench/site"

# The machine's own Python gets no packages: these go to a folder of their own.
install_peers() {
  "$1" -m pip install --no-deps --require-hashes --no-cache-dir --only-binary=:all: --target "$site" --requirement "$lock"
}

fetch_peers() {
  local python="$1" pinned
  pinned="$(digest <"$lock")"
  up_to_date "$deps_dir/bench/stamp" "$pinned" && return 0
  "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    die "peers" "their pinned wheels are for Python 3.11, and $python is $("$python" -V 2>&1)" \
      "install python3.11 and python3-pip, or leave the peers out: ./run bench --no-peers"
  say "fetching PyTorch and transformers for comparison (2.6 GB, once)"
  mkdir -p "$deps_dir/bench"
  need_space 9000
  rm -rf "$site"
  step peers "check the network and the package index of pip, or leave the peers out: ./run bench --no-peers" \
    install_peers "$python"
  echo "$pinned" >"$deps_dir/bench/stamp"
}

python="$(find_python)"
peers=(--peer-site "$site")
for argument in "$@"; do
  case "$argument" in
    --no-peers | -h | --help) peers=() ;;
  esac
done
((${#peers[@]} == 0)) || fetch_peers "$python"
exec "$python" bench/run_bench.py "${peers[@]}" "$@"
