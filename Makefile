# Two commands: `make run` opens the console, `make test` proves it. Both set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.run-ready
DEV    := $(VENV)/.dev-ready

export OMP_NUM_THREADS ?= 2
export PYTHONUNBUFFERED := 1

.PHONY: run test check format bench clean help

help:
	@echo "make run    set up, build the sample knowledge base once, open the console on http://127.0.0.1:8501"
	@echo "make test   set up, then every check and test"
	@echo "make check  ruff, mypy --strict on core, import-linter"
	@echo "make bench  the benchmarks in benchmarks/"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements.txt $(BIN)/python
	@echo "installing the packages of requirements.txt into $(VENV): some minutes the first time"
	$(BIN)/python -m pip install --quiet --progress-bar on --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt requirements-telemetry.txt requirements.txt $(BIN)/python
	@echo "installing the packages of requirements-dev.txt into $(VENV): some minutes the first time"
	$(BIN)/python -m pip install --quiet --progress-bar on --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(RUN)

run: $(RUN)
	@$(BIN)/python -m core prepare
	@$(BIN)/python -m pages.parts.launch $(if $(PORT),--server.port $(PORT))

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy core
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m core eval offline --gate
	$(BIN)/python -m pytest $(PYTEST_ARGS)

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(RUN)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
