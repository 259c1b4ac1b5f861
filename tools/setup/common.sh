# shellcheck shell=bash
# Messages and step running, shared by ./run and the scripts beside this one. All of it goes to stderr.

deps_dir="$PWD/.deps"

say() { printf '[run] %s\n' "$*" >&2; }

# die WHAT WHY REMEDY
die() {
  printf '[run] FAILED: %s\n[run]   why: %s\n[run]   what to do: %s\n' "$1" "$2" "$3" >&2
  exit 1
}

# step NAME REMEDY COMMAND...: runs the command with its output in .deps/logs/NAME.log, shown only if it fails.
step() {
  local name="$1" remedy="$2" log="$deps_dir/logs/$1.log"
  shift 2
  mkdir -p "$deps_dir/logs"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" | sed 's/^/[run]   | /' >&2
    die "$name" "'$1' failed; its last lines are above, all of them in ${log#"$PWD"/}" "$remedy"
  fi
}

# digest: the SHA-256 of standard input.
digest() { sha256sum | cut -d ' ' -f 1; }

# up_to_date STAMP DIGEST: whether STAMP holds DIGEST, i.e. the step that wrote it need not run again.
up_to_date() { [[ -f "$1" && "$(<"$1")" == "$2" ]]; }
