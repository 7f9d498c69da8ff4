#!/usr/bin/env bash
# What depends on the user, once more as a user with no rights: every probe, and the tests of the jail, of what doctor says
# about the machine, of files of notes and of killed processes. Works on a copy of the repository and on a virtual environment
# that this user can read.
#
# Does nothing unless it is run by root on Linux. Without a Python that other users may execute it says so; under CI=true
# that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

files=(
  # the jail and its doctor; what a jail allows to programs
  tests/sandbox/test_*.py tests/sandbox/docker/test_doctor.py tests/guest/test_rootfs*.py tests/cli/test_doctor.py
  tests/cli/test_run.py tests/runtime/test_limits_hold.py tests/runtime/test_hostile_guests.py tests/runtime/test_packages.py
  tests/runtime/test_display.py
  tests/docs/test_troubleshooting.py "tests/examples/test_examples.py::test_an_example_runs[containers.py]"
  # files of notes, and processes that are killed
  tests/runtime/test_context_task.py tests/runtime/test_notes_files.py tests/runtime/test_statistics_*.py
  tests/agent/learning/test_selections_file.py tests/agent/loop/test_transcript.py tests/agent/loop/test_resume_killed.py
  tests/cli/test_interrupted.py
)
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
  --python "$place/venv/bin/python" install -qq --editable . --group test)
"$place/venv/bin/python" -m compileall -q "$place/main/host" "$place/main/sandbox_image"  # each process of the tests reads them
chmod -R a+rX "$place"
chown -R 65534:65534 "$place/main" "$place/home"

cd "$place/main"
as_nobody() {
  env -i HOME="$place/home" PATH="$place/venv/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 ${CI:+CI="$CI"} \
    "${nobody[@]}" "$place/venv/bin/python" -m pytest "$@"
}
as_nobody --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/probes
as_nobody -k "not trio" --numprocesses 3 --dist loadfile --no-loadscope-reorder "${files[@]}"
