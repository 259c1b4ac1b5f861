#!/usr/bin/env bash
# What ./run bench runs after the build: makes the peers' Python environment in .deps/bench (once), then measures.
# `./run bench --no-peers` leaves the peers, and their download of 2.7 GB, out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for part in common downloads; do
  # shellcheck source=tools/setup/common.sh
  source "tools/setup/$part.sh"
done

lock=bench/peers/requirements.lock
site="$deps_dir/bench/site"
llama="$deps_dir/bench/llama"

# The machine's own Python gets no packages: these go to a folder of their own.
install_peers() {
  "$1" -m pip install --no-deps --require-hashes --no-cache-dir --only-binary=:all: --target "$site" --requirement "$lock"
}

# There is no wheel of llama-cpp-python; it is built for this very processor.
build_llama() {
  pins bench | awk '{ printf "%s==%s --hash=sha256:%s\n", $1, $2, $3 }' >"$deps_dir/bench/llama.txt"
  CMAKE_ARGS="-DGGML_NATIVE=ON" "$1" -m pip install --no-deps --require-hashes --no-cache-dir --no-binary=llama-cpp-python \
    --target "$llama" --requirement "$deps_dir/bench/llama.txt"
}

fetch_llama() {
  local python="$1" pinned
  pinned="$(pins bench | digest)"
  up_to_date "$deps_dir/bench/llama.stamp" "$pinned" && return 0
  say "fetching and building llama.cpp for comparison (65 MB; some ten minutes, once)"
  rm -rf "$llama"
  step llama "check the network and the package index of pip, or leave the peers out: ./run bench --no-peers" build_llama "$python"
  echo "$pinned" >"$deps_dir/bench/llama.stamp"
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
peers=(--peer-site "$site" --llama-site "$llama")
for argument in "$@"; do
  case "$argument" in
    --no-peers | -h | --help) peers=() ;;
  esac
done
if ((${#peers[@]} > 0)); then
  fetch_peers "$python"
  fetch_llama "$python"
fi
exec "$python" bench/run_bench.py "${peers[@]}" "$@"
