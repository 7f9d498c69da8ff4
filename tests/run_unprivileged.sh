#!/usr/bin/env bash
# The tests of everything that meets the kernel, once more as a user with no rights: what passes for root proves nothing
# for those who are not. Works on a copy of the repository and on a virtual environment that this user can read.
#
# Does nothing unless it is run by root on Linux. Without a Python that other users may execute it says so; under CI=true
# that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

rooms=(tests/sandbox tests/runtime tests/guest tests/cli tests/examples tests/docs)
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)

if [ "$(uname)" != Linux ] || [ "$(id -u)" != 0 ]; then
  echo "unprivileged run: not root on Linux, so the ordinary run is it"
  exit 0
fi

python=
for candidate in /usr/bin/python3 /usr/bin/python3.1[1-9] /usr/local/bin/python3 /usr/local/bin/python3.1[1-9]; do
  if [ -x "$candidate" ] && (cd / && "${nobody[@]}" "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))') 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "unprivileged run: there is no Python 3.11 or newer that users other than root may execute (looked in /usr/bin, /usr/local/bin)"
  [ "${CI:-}" = true ] && exit 1
  exit 0
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/callgate-unprivileged.XXXXXX")
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
mkdir "$place/main" "$place/home"
tar --create --exclude=./.venv --exclude=./.git --exclude=__pycache__ --exclude='./.*_cache' --exclude=./.hypothesis . |
  tar --extract --no-same-owner --directory "$place/main"
if [ -d ../shared/data ]; then
  mkdir "$place/shared"
  cp -r ../shared/data "$place/shared/data"
fi
echo "unprivileged run: as uid 65534, with $python"
"$python" -m venv --without-pip "$place/venv"
(cd "$place/main" && "$OLDPWD/.venv/bin/python" -m pip --disable-pip-version-check --no-input \
  --python "$place/venv/bin/python" install -qq --editable . --group test --group lint)
chmod -R a+rX "$place"
chown -R 65534:65534 "$place/main" "$place/home"

present=()
for room in "${rooms[@]}"; do
  [ -d "$room" ] && present+=("$room")
done
cd "$place/main"
as_nobody() {
  env -i HOME="$place/home" PATH="$place/venv/bin:/usr/bin:/bin" LANG=C.UTF-8 ${CI:+CI="$CI"} \
    "${nobody[@]}" "$place/venv/bin/python" -m pytest "$@"
}
as_nobody tests/probes
as_nobody --numprocesses 3 --dist loadfile --no-loadscope-reorder "${present[@]}" --ignore-glob="*/test_fast_path*"  # those are about the host
