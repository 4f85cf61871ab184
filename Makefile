# Every target creates the environment itself; it is quick when the environment exists.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench format docs

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedgrain needs Python 3.11 or newer; set it with: make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: .venv/.ready
	$(BIN)/fedgrain study demo --out demo
	$(BIN)/fedgrain report demo

# One worker more than there are cores: tests that wait for Flower or a browser leave one free.
test: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$($(BIN)/python -c 'from fedgrain.cores import available_cores as n; print(n() + 1)')

lint: .venv/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: .venv/.ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The reports on the published studies become pages of the site.
docs: .venv/.ready
	for study in docs/results/*/study.toml; do folder=$$(dirname $$study); \
	  $(BIN)/fedgrain report $$folder --no-images --out build/reports/results/$$(basename $$folder)-report.html || exit 1; done
	$(BIN)/sphinx-build -W docs build/docs

bench: .venv/.ready
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# Attack it: every kill, flipped bit and lie counts (tests/attacks). make attack SECONDS=60 is a sample.
SECONDS ?= 600
.PHONY: attack
attack: .venv/.ready
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m attacks --seconds $(SECONDS)
