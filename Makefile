# Everything from a bare Python 3.11 or newer: each target sets up what it needs in .venv, once per change of pyproject.toml.
#
#   make demo    see a program run in the sandbox and call tools
#   make test    ruff, mypy, import-linter, pytest; as root on Linux, the sandbox tests once more as an unprivileged user
#   make lint    the first three alone
#   make examples  run every example
#   make bench   every mode beside its peers, measured here
#   make clean   remove .venv and what the tools left
#
# Another Python: make PYTHON=python3.13 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install -qq

.PHONY: demo test lint examples bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.runtime
	@$(BIN)/callgate demo

# Most tests wait for a process or a container, so there are more workers than processors; a file goes to one as a whole.
# The probes hold hostile programs against time limits and count what is left: they have the machine to themselves.
test: lint
	$(BIN)/python -m compileall -q host sandbox_image
	tests/run_unprivileged.sh
	$(BIN)/python -m pytest tests/probes
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --ignore tests/probes

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

examples: $(VENV)/.test
	@for example in examples/*.py; do echo "== $$example"; $(BIN)/python $$example || exit 1; done

bench: $(VENV)/.bench
	$(BIN)/callgate bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "callgate needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "this Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) --upgrade 'pip>=25.1'
	@touch $@

# pip 25.1 is the first that knows dependency groups
$(VENV)/.runtime: pyproject.toml $(VENV)/.pip
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.pip
	@$(PIP) --editable . --group test --group lint --group bench
	@touch $@ $(VENV)/.runtime

$(VENV)/.bench: pyproject.toml $(VENV)/.pip
	@$(PIP) --editable . --group bench
	@touch $@ $(VENV)/.runtime
