#!/usr/bin/env bash
# The tests of everything that meets the kernel, once more as a user with no rights: what passes for root proves nothing
# for those who are not. Works on a copy of the repository and on a virtual environment that this user can read.
#
# Does nothing unless it is run by root on Linux. Without a Python that other users may execute it says so; under CI=true
# that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

rooms=(tests/sandbox tests/runtime tests/guest tests/cli tests/examples tests/docs)
# A file of these rooms is run unless it is named here. What depends on the user is the jail (callgate_guest/jail, rootfs),
# what doctor says of the machine, kept files and other processes; besides the probes, their tests are what remains. Pure
# rooms (plan, program, protocol, tools, search) do no I/O; with_mcp, adapters, agent and bench have a runtime's doors, not its jail.
left_out=(
  # the host's side of plans, of calls and of what a model is told: no sandbox, or a program or two in the ordinary one
  "tests/runtime/test_plan*" "tests/runtime/test_gate*" "tests/runtime/test_definitions*" "tests/runtime/test_tool_search*"
  "tests/runtime/test_handle*" "tests/runtime/test_fast_path*" "tests/runtime/test_conversation*"
  "tests/runtime/test_advice*" "tests/runtime/test_builtins*" "tests/runtime/test_cache*" "tests/runtime/test_jsonrpc_lane*"
  "tests/runtime/test_namespaces*" "tests/runtime/test_results*" "tests/runtime/test_sources*" "tests/runtime/test_workers*"
  "tests/runtime/test_public_api*"
  # the guest as a plain child of the tests, with the rights that they have: the same Python; test_rootfs remains
  "tests/guest/test_[!r]*"
  # what the command line reads and prints; its sandbox is that of test_run, its machine that of test_doctor
  "tests/cli/test_agent*" "tests/cli/test_bench*" "tests/cli/test_check*" "tests/cli/test_compile*" "tests/cli/test_json_places*"
  "tests/cli/test_mcp_option*" "tests/cli/test_news*" "tests/cli/test_plan*" "tests/cli/test_serve*" "tests/cli/test_tools*"
  "tests/cli/test_usage*"
  # installing for examples, and pages; test_troubleshooting remains, which has the jail's error texts,
  # and so does test_examples, which knows an engine that is for others
  "tests/examples/test_installing*" "tests/docs/test_[!t]*"
)
installs="tests/examples/test_examples.py::test_an_example_runs[mcp_"  # whole servers, into this user's own empty cache
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
as_nobody --numprocesses 3 --dist loadfile --no-loadscope-reorder "${present[@]}" \
  "${left_out[@]/#/--ignore-glob=$place/main/}" --deselect "$installs"
