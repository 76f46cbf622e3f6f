# Everything a newcomer needs: `make demo` and `make test`, from a bare clone, without root, account or service.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
N      ?= 200
SEED   ?= 1
CASES  ?= ../shared/parity

.PHONY: demo test check lint types layers crash parity bench wheel clean

demo: $(STAMP)
	$(BIN)/agentforge demo

test: $(STAMP)
	$(BIN)/python -m pytest

check: lint types layers test

lint: $(STAMP)
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

crash: $(STAMP)            ## N real kills at random and chosen moments
	$(BIN)/python -m tests.crash.campaign --kills $(N) --seed $(SEED)

parity: $(STAMP)           ## recorded cases of agent-pipelines, played with ours: CASES=DIR
	$(BIN)/python -m tests.parity $(CASES)

bench: $(STAMP)            ## costs beside their floors, as a table and JSON
	$(BIN)/python -m bench

wheel: $(STAMP)            ## builds the wheel, runs it from an empty environment elsewhere
	$(BIN)/python -m pytest -q tests/surface/test_wheel.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AgentForge needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
