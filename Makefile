# Everything from a bare Python 3.11 or newer: each target sets up what it needs in .venv, once per change of pyproject.toml.
#
#   make demo    see a program run in the sandbox and call tools
#   make test    ruff, mypy, import-linter and the quick tests, in some minutes; needs no Docker and no rights
#   make test-all  what make test leaves out: slow tests, containers, trio, every probe, many generated examples; as root
#                on Linux, what depends on the user once more as an unprivileged one. CI runs both
#   make soak    long campaigns: generated examples by the ten thousand, processes killed by the thousand; takes hours
#   make lint    ruff, mypy and import-linter alone
#   make examples  run every example
#   make docs    the pages and the API reference, in site/; every warning is an error
#   make bench   every mode beside its peers, measured here
#   make guard   before and after something large is taken away: coverage, mutants, speed, against guard/base; about two hours
#   make clean   remove .venv and what the tools left
#
# Another Python: make PYTHON=python3.13 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install -qq

.PHONY: demo test test-all soak lint compiled examples docs bench guard clean
.DELETE_ON_ERROR:

demo: $(VENV)/.runtime
	@$(BIN)/callgate demo

# tests/conftest.py says which tests are quick. Most tests wait for a process or a container, so there are more workers
# than processors; a file goes to one worker. The probes hold hostile programs against time limits, and tests marked alone
# judge time: of these no more than two run at once.
unexport PYTHONDONTWRITEBYTECODE  # else each worker prepares every test file anew
PYTEST := $(BIN)/python -m pytest
WORKERS := --numprocesses 3 --dist loadfile --no-loadscope-reorder
TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: lint compiled
	$(PYTEST) --hypothesis-profile quick -m "not slow" $(TWO) tests/probes
	$(PYTEST) --hypothesis-profile quick -m "not slow" $(WORKERS) --ignore tests/probes

test-all: compiled
	tests/run_unprivileged.sh
	$(BIN)/python tests/again.py -m alone $(TWO)  # they judge time: one that fails is run once more, with nothing beside it
	$(PYTEST) -m "(slow or generated) and not alone" $(WORKERS)

# SOAK repeats each test marked campaign so many times
SOAK ?= 200
soak: compiled
	$(PYTEST) -m campaign --times $(SOAK)
	$(PYTEST) -m generated --hypothesis-profile soak --timeout 0 $(WORKERS)
	CALLGATE_NURSERY_RUNS=10000 $(PYTEST) --timeout 0 tests/guard/test_a_program_is_a_nursery.py
	PYTHONPATH=tests $(BIN)/python -m fast_path --programs 20000
	PYTHONPATH=tests $(BIN)/python -m replays --programs 20000
	PYTHONPATH=tests $(BIN)/python -m durable.kill --moments 1000

# each process that a test starts reads these
compiled: $(VENV)/.test
	@$(BIN)/python -m compileall -q host sandbox_image

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

examples: $(VENV)/.examples
	@set -- examples/*.py; number=0; for example; do number=$$((number + 1)); \
	  echo "== $$number of $$#: $$example"; $(BIN)/python $$example || exit 1; done; echo "== all $$# examples ran"

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean

bench: $(VENV)/.bench
	$(BIN)/callgate bench

# Goes on where it was interrupted; `$(BIN)/python guard coverage` and so on run one part. Needs the machine to itself.
guard: $(VENV)/.guard
	$(BIN)/python guard

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
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
	@echo "installing callgate in $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.pip
	@echo "installing what the tests need in $(VENV); this may take some minutes ..."
	@$(PIP) --editable . --group test --group lint --group bench
	@touch $@ $(VENV)/.runtime

$(VENV)/.examples: pyproject.toml $(VENV)/.pip
	@echo "installing what the examples need in $(VENV); this may take a minute or two ..."
	@$(PIP) --editable . --group examples
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml $(VENV)/.pip
	@echo "installing what the pages need in $(VENV) ..."
	@$(PIP) --group docs
	@touch $@

$(VENV)/.bench: pyproject.toml $(VENV)/.pip
	@echo "installing what the comparison needs in $(VENV); this may take some minutes ..."
	@$(PIP) --editable . --group bench
	@touch $@ $(VENV)/.runtime

$(VENV)/.guard: pyproject.toml $(VENV)/.pip
	@echo "installing what the guard needs in $(VENV); this may take some minutes ..."
	@$(PIP) --editable . --group test --group bench --group guard
	@touch $@ $(VENV)/.runtime
