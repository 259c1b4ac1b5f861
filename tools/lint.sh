#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by name
# Format, include, script and text checks over what git tracks. `lint.sh tidy [FILE...]` adds clang-tidy, over FILEs or all
# sources (slow); it needs a finished ./run build. Every check runs; the exit code is 1 if one complains.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
status=0

# check NAME COMMAND...
check() {
  local name="$1"
  shift
  if "$@"; then echo "lint: $name: ok"; else
    echo "lint: $name: FAILED"
    status=1
  fi
}

# Text that has no place in the repository: marks of unfinished work, paths of one machine, blanks at line ends; and
# addresses in what builds and tests (the package clients know theirs).
unwanted_text() {
  local found=0
  git grep -nIE 'TODO|FIXME|\bXXX\b|TEST.*DISABLED_|/home/[a-z]|/root/|/work/|[[:blank:]]+$' -- \
    calyrex tests bench configs tools cmake run .ci CMakeLists.txt \
    ':!tests/golden' ':!*.jsonl' ':!*.lock' ':!*.md' ':!tools/lint.sh' && found=1
  git grep -nIE 'https?://' -- cmake run .ci tools CMakeLists.txt ':!tools/lint.sh' ':!tools/golden' && found=1
  return "$found"
}

# Files that should be split (data tables and generated files are no code).
long_files() {
  git ls-files -- '*.cc' '*.h' '*.py' '*.sh' '*.rs' | xargs wc -l |
    awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines, split it"; bad = 1 } END { exit bad }'
}

mapfile -t sources < <(git ls-files '*.cc' '*.h')
mapfile -t scripts < <(git grep -lE '^#!/usr/bin/env bash|^# shellcheck shell=bash')
check format clang-format-14 --dry-run --Werror "${sources[@]}"
check includes python3 tools/check_includes.py
check scripts shellcheck --external-sources "${scripts[@]}"
check text unwanted_text
check length long_files

if [[ "${1:-}" == tidy ]]; then
  shift
  (($# > 0)) || mapfile -t -O 0 files < <(git ls-files 'calyrex/*.cc')
  (($# == 0)) || files=("$@")
  [[ -f build/compile_commands.json ]] || {
    echo "lint: clang-tidy needs build/compile_commands.json: run ./run build first" >&2
    exit 1
  }
  check clang-tidy clang-tidy -p build --quiet "${files[@]}"
fi
exit "$status"
