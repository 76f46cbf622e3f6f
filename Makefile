# Everything a newcomer needs: `make demo` and `make test`, from a bare clone, without root, account or service.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
N      ?= 200
SEED   ?= 1
JOBS   ?= $(shell $(PYTHON) -c 'import os; print(2 * max(2, os.cpu_count() or 1))')
ROUNDS ?= 1
EXAMPLES ?= 20000
CASES  ?= ../shared/parity
DIR    ?= .bench
ARGS   ?=

# What is installed is pinned, with hashes, in requirements/; `make hashes` writes them after a change of a version.
# Without --no-deps, pip resolves a dependency with an extra, such as coverage[toml], to its newest release first.
INSTALL   = -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r
LOCKED   := requirements/dev.txt requirements/agents.txt requirements/peers.txt requirements/mutate.txt

# The agent CLIs that tests run; Python packages bring Claude Code and Codex.
AGENTS   := .agents
NPM      ?= npm
OPENCODE := opencode-linux-x64/bin/opencode
PACKAGE   = $(AGENTS)/venv/bin/python -c 'import sys; from importlib.util import find_spec; \
            print(find_spec(sys.argv[1]).submodule_search_locations[0])'

# The systems that bench-peers compares with AgentForge.
PEERS    := .peers

# Every worker imports all tests, and they start hundreds of programs: compiled once.
unexport PYTHONDONTWRITEBYTECODE

PYTEST    = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
PURE     := model engine definition views
CORE     := tests/unit/pipeline tests/integration/pipeline

.PHONY: demo demo-loop test check lint types layers coverage crash mutants mutate soak fuzz parity bench bench-peers peers wheel docs pictures hashes agents agents-pypi agents-npm test-agents clean

demo: $(STAMP)
	$(BIN)/agentforge demo

demo-loop: $(STAMP)        ## the built-in loop with a scripted agent: a failing check, a rejection, a kill
	PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/loop/demo.sh

test: $(STAMP)             ## two workers for each core, as many tests wait; JOBS=1: one after the other
	$(PYTEST) -m "not soak and not agents"

check: lint types layers coverage test

lint: $(STAMP)
	$(BIN)/ruff check src tests bench tools examples requirements conftest.py
	$(BIN)/ruff format --check src tests bench tools examples requirements conftest.py

types: $(STAMP)
	$(BIN)/mypy
	MYPYPATH=examples/remote-sandbox/src $(BIN)/mypy -p remote_sandbox
	$(BIN)/mypy tests/unit/pipeline/typed_names.py

layers: $(STAMP)
	$(BIN)/lint-imports

coverage: $(STAMP)         ## the pure layers by their own tests, without random examples: all lines and branches; 90 % of core
	$(PYTEST) -m "not hypothesis" $(PURE:%=tests/%) $(PURE:%=--cov=agentforge.%) --cov-report=term:skip-covered
	$(PYTEST) $(CORE) --cov=agentforge.core --cov-fail-under=90 --cov-report=term:skip-covered

crash: $(STAMP)            ## N real kills at random and chosen moments
	$(BIN)/python -m tests.crash.campaign --kills $(N) --seed $(SEED)

soak: $(STAMP)             ## what takes too long for `make test`, with new examples each time: ROUNDS=N
	for round in $$(seq $(ROUNDS)); do \
	    HYPOTHESIS_PROFILE=soak $(PYTEST) --timeout 3600 -m "soak or hypothesis" || exit 1; \
	done

fuzz: $(STAMP)             ## read EXAMPLES new inputs with every reader of untrusted bytes; keep what fails in tests/fuzz/corpus
	HYPOTHESIS_PROFILE=fuzz FUZZ_EXAMPLES=$(EXAMPLES) $(PYTEST) --timeout 36000 tests/fuzz

mutants: $(STAMP)          ## apply one bug at a time: how many do the tests catch? ARGS=WORDS chooses some
	$(BIN)/python -m tests.mutants $(ARGS)

mutate: $(STAMP) .mutate/.installed  ## change each expression of a module, one at a time: MODULE=engine/checks; without, the list in tests/mutants/generated.py
	$(BIN)/python -m tests.mutants.generated $(MODULE)

parity: $(STAMP)           ## replay recorded cases of the shell engine: CASES=DIR
	$(BIN)/python -m tests.parity $(CASES)

bench: $(STAMP)            ## measure costs and their floors, as a table and JSON
	$(BIN)/python -m bench

bench-peers: $(STAMP) $(PEERS)/.installed  ## compare with LangGraph, Burr and DBOS: DIR=FOLDER on the disk, ARGS=OPTIONS
	$(BIN)/python -m bench.peers --dir $(DIR) $(ARGS)

peers: $(PEERS)/.installed ## install the systems of bench-peers into .peers/

docs: $(STAMP)             ## write the pages that are made from the code: events, variables, the manual page
	$(BIN)/python -m tools.pages

pictures: $(STAMP)         ## draw the pictures of docs/pictures by running the program on a terminal
	$(BIN)/python -m tools.pictures

wheel: $(STAMP)            ## build the wheel and run it from an empty environment
	$(BIN)/python -m pytest -q tests/surface/test_wheel.py

agents: agents-pypi agents-npm  ## install the real agent CLIs into .agents/; the tests need no account

agents-pypi: $(AGENTS)/pypi.stamp

agents-npm:
	@if command -v $(NPM) >/dev/null; then $(MAKE) --no-print-directory $(AGENTS)/npm.stamp; \
	else echo "npm not found: opencode and gemini are not installed, and their tests are skipped"; fi

test-agents: $(STAMP)      ## the real agent CLIs against a scripted model on loopback; `make agents` installs them
	$(PYTEST) -rs -m agents

$(AGENTS)/pypi.stamp: requirements/agents.txt
	test -x $(AGENTS)/venv/bin/python || $(PYTHON) -m venv $(AGENTS)/venv
	$(AGENTS)/venv/bin/python $(INSTALL) $<
	mkdir -p $(AGENTS)/bin
	ln -sf "$$($(PACKAGE) claude_agent_sdk)/_bundled/claude" $(AGENTS)/bin/claude
	ln -sf "$$($(PACKAGE) codex_cli_bin)/bin/codex" $(AGENTS)/bin/codex
	$(AGENTS)/bin/claude --version
	$(AGENTS)/bin/codex --version
	touch $@

# Neither CLI needs the install scripts of its packages. OpenCode's program is a package for each platform; the lock file
# has that for Linux on x86-64.
$(AGENTS)/npm.stamp: requirements/package-lock.json
	mkdir -p $(AGENTS)/bin $(AGENTS)/npm
	cp requirements/package.json requirements/package-lock.json $(AGENTS)/npm/
	$(NPM) ci --prefix $(AGENTS)/npm --ignore-scripts --no-audit --no-fund --loglevel=error
	ln -sf ../npm/node_modules/.bin/gemini $(AGENTS)/bin/
	test ! -x $(AGENTS)/npm/node_modules/$(OPENCODE) || ln -sf ../npm/node_modules/$(OPENCODE) $(AGENTS)/bin/opencode
	touch $@

$(PEERS)/.installed: requirements/peers.txt
	test -x $(PEERS)/venv/bin/python || $(PYTHON) -m venv $(PEERS)/venv
	$(PEERS)/venv/bin/python $(INSTALL) $<
	touch $@

.mutate/.installed: requirements/mutate.txt
	$(BIN)/python $(INSTALL) $< --target .mutate/site --upgrade
	touch $@

$(STAMP): pyproject.toml requirements/dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AgentForge needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

hashes:                    ## after a change of a version: the hashes of its files, from the package index, and npm's lock file
	$(PYTHON) requirements/hashes.py $(LOCKED)
	cd requirements && $(NPM) install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved

clean:
	rm -rf $(VENV) $(AGENTS) $(PEERS) .mutate dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
