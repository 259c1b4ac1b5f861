# shellcheck shell=bash
# Configuring, building and testing with CMake, Ninja and CTest.

# Parallel compilers: as many as there are cores, at most one for every 1.5 GB of free memory (a torch file takes 0.8 GB).
build_jobs() {
  local by_memory cores
  cores="$(nproc)"
  by_memory="$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)"
  ((by_memory >= 1)) || by_memory=1
  echo $((by_memory < cores ? by_memory : cores))
}

# build FOLDER CMAKE_ARGUMENT...: configures if the arguments changed, then builds; Ninja skips what is up to date.
build() {
  local folder="$1" arguments
  shift
  arguments="$(printf '%s\n' "$PWD" "$@" | digest)"
  if [[ ! -f "$folder/build.ninja" ]] || ! up_to_date "$folder/.configured" "$arguments"; then
    say "configuring $folder"
    mkdir -p "$folder"
    step "configure-$folder" "mend what CMake names, or remove $folder/ and run this again" cmake -S . -B "$folder" -G Ninja "$@"
    echo "$arguments" >"$folder/.configured"
  fi
  ninja -C "$folder" -j "$(build_jobs)" >&2 </dev/null ||
    die "build of $folder" "the compiler's message is above" \
      "mend the source; if the compiler was killed there was too little memory: close other programs and run this again"
}

# run_tests FOLDER CTEST_ARGUMENT...: quick tests first; the last line is `N passed, N failed, N skipped`.
run_tests() {
  local folder="$1" labels=(unit torch integration slow) label select jobs results=() status=0
  shift
  rm -rf "$folder/results" && mkdir -p "$folder/results"
  for label in "${labels[@]}" other; do
    results+=("$folder/results/$label.xml")
    select=(-L "^$label\$")
    [[ "$label" != other ]] || select=(-LE "^($(IFS='|' && echo "${labels[*]}"))\$")
    # One at a time where a test runs the whole program on all cores.
    jobs="$(nproc)"
    [[ "$label" == unit || "$label" == torch ]] || jobs=1
    ctest --test-dir "$folder" "${select[@]}" -j "$jobs" --output-on-failure --no-tests=ignore \
      --output-junit "$PWD/${results[-1]}" "$@" </dev/null || status=1
  done
  python3 tools/test_summary.py --status "$status" "${results[@]}"
}
