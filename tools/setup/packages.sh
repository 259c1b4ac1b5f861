# shellcheck shell=bash
# Debian packages and the Rust compiler. CALYREX_SKIP_PACKAGES=1 leaves both to the user.

oldest_cargo=1.80

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# Takes the first cargo on PATH that is new enough, and puts its folder first so that it finds its own rustc.
find_cargo() {
  local cargo version
  while read -r cargo; do
    version="$("$cargo" --version 2>/dev/null | cut -d ' ' -f 2)" || continue
    if [[ -n "$version" && "$(printf '%s\n' "$oldest_cargo" "$version" | sort -V | head -n 1)" == "$oldest_cargo" ]]; then
      [[ "$(type -P cargo)" == "$cargo" ]] || PATH="$(dirname "$cargo"):$PATH"
      return 0
    fi
  done < <(type -ap cargo)
  return 1
}

# missing_packages NAME...: those that are not installed, one a line.
missing_packages() {
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p' | sort -u)
}

# install_packages FILE: installs what FILE lists and is missing, and a Rust compiler if there is none.
install_packages() {
  [[ -z "${CALYREX_SKIP_PACKAGES:-}" ]] || return 0
  local wanted missing
  mapfile -t wanted < <(grep -v '^#' "$1")
  if ! type -P apt-get dpkg-query >/dev/null; then
    die "packages" "this system has no apt-get; set-up is made for Debian 12" \
      "install the equivalents of ${wanted[*]} and cargo >= $oldest_cargo, then set CALYREX_SKIP_PACKAGES=1"
  fi
  find_cargo || wanted+=(cargo-web rustc-web)
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]} > 0)) || return 0
  if ((EUID != 0)) && ! { type -P sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; }; then
    die "packages" "${#missing[@]} Debian packages are missing and this user may not install them (no root, no sudo)" \
      "as root: apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  ((EUID == 0)) || sudo -v
  step apt-update "check the network and the package sources, then run this again" as_root "${apt[@]}" update
  step apt-install "read the log, mend the package system (apt-get -f install), then run this again" \
    as_root "${apt[@]}" install --no-install-recommends --no-remove "${missing[@]}"
}

# require_cargo: what install_packages promises, checked where it is needed.
require_cargo() {
  find_cargo || die "rust" "no cargo >= $oldest_cargo on PATH" "install cargo-web and rustc-web, or Rust $oldest_cargo or newer"
}
