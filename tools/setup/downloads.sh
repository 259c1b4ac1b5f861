# shellcheck shell=bash
# libtorch, the default backbone, language resources and the Rust crates: pinned, fetched by pip and cargo, kept in .deps/.

deps_dir="${deps_dir:?common.sh sets it}"
lock_file=tools/setup/downloads.lock

# A Python 3 that has pip, and what pip needs to read a source archive.
find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1 && "$python" -c "import setuptools, wheel" >/dev/null 2>&1; then
      echo "$python"
      return 0
    fi
  done
  die "python" "no python3 with pip, setuptools and wheel was found" "install python3-pip, python3-setuptools and python3-wheel"
}

# pins GROUP: the lock lines of a group.
pins() { awk -v group="$1" '$1 == group { print $2, $3, $4 }' "$lock_file"; }

# Packages that exist as a source archive only; pip asks setuptools for its name and version.
source_packages=langdetect

# download_wheels GROUP FOLDER: fetches a group's packages into FOLDER; pip checks the digests.
download_wheels() {
  local python arguments=() tag attempt
  python="$(find_python)"
  while read -r tag; do arguments+=(--platform "$tag"); done \
    < <(awk '$1 == "platforms" { for (i = 2; i <= NF; ++i) print $i }' "$lock_file")
  pins "$1" | awk '{ printf "%s==%s --hash=sha256:%s\n", $1, $2, $3 }' >"$2/requirements.txt"
  for attempt in 1 2 3; do
    "$python" -m pip download --no-deps --require-hashes --no-cache-dir --python-version 3.11 --implementation cp \
      --only-binary=:all: --no-binary="$source_packages" --no-build-isolation "${arguments[@]}" \
      --dest "$2" --requirement "$2/requirements.txt" && return 0
    echo "attempt $attempt failed"
  done
  return 1
}

# need_space MIB: refuses to start a download that cannot fit.
need_space() {
  local free
  free="$(df --output=avail -m "$deps_dir" | tail -n 1)"
  ((free >= $1)) || die "disk space" "$free MiB are free here, $1 MiB are needed for a moment" "free some space, then run this again"
}

# fetch_group GROUP MIB WHAT: downloads and unpacks a group into .deps/<folder> unless that is done already.
fetch_group() {
  local group="$1" pinned stamp="$deps_dir/stamps/$1" wheels="$deps_dir/download-$1"
  # The converter belongs to what it made.
  pinned="$({ pins "$group" && { [[ "$group" != eval ]] || cat tools/setup/make_language_resources.py; }; } | digest)"
  if up_to_date "$stamp" "$pinned" && python3 tools/setup/unpack_wheels.py --check "$group" "$deps_dir" 2>/dev/null; then
    return 0
  fi
  say "fetching $3"
  mkdir -p "$deps_dir/stamps"
  need_space "$2"
  rm -rf "$wheels" && mkdir -p "$wheels"
  step "download-$group" "check the network and the package index of pip, then run this again" download_wheels "$group" "$wheels"
  step "unpack-$group" "free some disk space, then run this again" \
    python3 tools/setup/unpack_wheels.py "$group" "$deps_dir" "$wheels"
  rm -rf "$wheels"
  echo "$pinned" >"$stamp"
}

fetch_torch() {
  if [[ -n "${CALYREX_TORCH_ROOT:-}" ]]; then
    [[ -f "$CALYREX_TORCH_ROOT/lib/libtorch_cpu.so" ]] ||
      die "libtorch" "CALYREX_TORCH_ROOT=$CALYREX_TORCH_ROOT holds no lib/libtorch_cpu.so" \
        "point it at a libtorch or at site-packages/torch (2.7 or newer), or unset it"
    return 0
  fi
  [[ "$(uname -m)" == x86_64 ]] ||
    die "libtorch" "the pinned wheels are for x86_64, this machine is $(uname -m)" \
      "set CALYREX_TORCH_ROOT to a libtorch or pip torch (2.7 or newer) for this machine"
  fetch_group torch 2200 "libtorch (553 MB, once)"
}

fetch_language_resources() { fetch_group eval 100 "language profiles and a sentence model for the checkers of eval (6 MB, once)"; }

fetch_model() { fetch_group model 400 "the default backbone (93 MB, once)"; }

# After this cargo builds without a network.
fetch_crates() {
  local bridge=calyrex/text/bridge pinned
  pinned="$(digest <"$bridge/Cargo.lock")"
  require_cargo
  if ! up_to_date "$deps_dir/stamps/crates" "$pinned"; then
    say "fetching the Rust crates"
    mkdir -p "$deps_dir/stamps"
    step fetch-crates "check the network and the configuration of cargo, then run this again" \
      cargo fetch --locked --manifest-path "$bridge/Cargo.toml"
    echo "$pinned" >"$deps_dir/stamps/crates"
  fi
  export CARGO_NET_OFFLINE=true
}
