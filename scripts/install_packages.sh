# For the scripts beside it: what they say, and Debian packages.

say() { printf '%s\n' "$*" >&2; }

# Installs Debian packages, as root or through sudo.
install_packages() {
  local as=()
  command -v apt-get >/dev/null || { say "Missing: $*. Install them with this machine's package manager, then run make setup again."; exit 1; }
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "Missing: $*. Run as root: apt-get install $*"; exit 1; }
    as=(sudo)
  fi
  say "Installing $*"
  "${as[@]}" apt-get update -qq
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
