# Every target creates the environment itself; it is quick when the environment exists.
PYTHON ?= python3
BIN := .venv/bin

# Some containers tell Python to keep no compiled modules: then every process compiles torch again,
# two seconds of the four that it takes to start.
unexport PYTHONDONTWRITEBYTECODE

# A CPU without AVX-512, as far as one with it can play that: ATen, oneDNN and MKL leave it out.
WITHOUT_AVX512 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
# One worker more than there are cores: tests that wait for Flower or a browser leave one free.
# Each gets a stretch of the tests, so that what a file or folder shares is made once and not by
# every worker; who has done his takes of the others'.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --dist worksteal -n $$($(BIN)/python -c 'from fedgrain.cores import available_cores as n; print(n() + 1)')

.PHONY: demo test test-without-avx512 lint bench bench-quick format docs

# What the demo needs: fedgrain and what it imports. A development environment has that already.
.venv/.lean: pyproject.toml constraints.txt
	@if [ .venv/.ready -nt pyproject.toml ] && [ .venv/.ready -nt constraints.txt ]; then touch -r .venv/.ready $@; else \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedgrain needs Python 3.11 or newer; set it with: make PYTHON=python3.11")' && \
	  $(PYTHON) -m venv --clear .venv && \
	  echo "installing fedgrain and what it needs" && \
	  $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable . && \
	  touch $@; fi

# On top of it, everything for tests, lint, benchmarks and documentation. torchcp comes without its
# requirements: a test compares two of its modules, which import nothing but torch.
.venv/.ready: .venv/.lean
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --no-deps torchcp
	@touch $@

demo: .venv/.lean
	$(BIN)/fedgrain study demo --out demo
	FEDGRAIN_ARITHMETIC=portable $(BIN)/fedgrain report demo

test: .venv/.ready
	$(PYTEST)
	@$(MAKE) --no-print-directory test-without-avx512

# The tests of the arithmetic once more, as on a CPU without AVX-512; only their files are imported.
test-without-avx512: .venv/.ready
	$(WITHOUT_AVX512) $(PYTEST) -m arithmetic -p no:cacheprovider $$(grep -rl --include='*.py' 'mark.arithmetic' tests)

lint: .venv/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python scripts/import_graph.py

format: .venv/.ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The reports on the published studies become pages of the site.
docs: .venv/.ready
	for study in docs/results/*/study.toml; do folder=$$(dirname $$study); \
	  $(BIN)/fedgrain report $$folder --no-images --out build/reports/results/$$(basename $$folder)-report.html || exit 1; done
	$(BIN)/sphinx-build -W docs build/docs

# Everything to install a site or a server without a network: see docs/it.md. make wheelhouse EXTRAS=flower,timm
EXTRAS ?= flower
.PHONY: wheelhouse
wheelhouse: .venv/.ready
	$(BIN)/python scripts/wheelhouse.py wheelhouse --extras $(EXTRAS)

bench: .venv/.ready
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# That every benchmark runs, two at a time; the figures mean nothing.
bench-quick: .venv/.ready
	printf '%s\n' benchmarks/*.py | xargs -P 2 -I SCRIPT sh -c \
	  'told=$$($(BIN)/python SCRIPT --quick 2>&1); code=$$?; printf "%s\n" "SCRIPT --quick" "$$told"; exit $$code'

# Attack it: every kill, flipped bit and lie counts (tests/attacks). make attack SECONDS=60 is a sample.
SECONDS ?= 600
.PHONY: attack
attack: .venv/.ready
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m attacks --seconds $(SECONDS)
