# Needs Python 3.11 or later, make and a network; the tests need RabbitMQ, PostgreSQL, Chromium and, on
# Linux, bubblewrap, which on Debian and Ubuntu they install as root or by sudo. `make help` lists
# the targets.

VENV   := .venv
# The interpreter that .venv is built with; empty: the first that works. To change it: make clean.
PYTHON ?=
# pytest's workers: three for each core of a small machine, as most tests wait for another process.
JOBS   ?= 6
RUN    := $(VENV)/bin/python
# What tests agents, runs, memories and models; the rest needs services or minutes.
CORE   := $(wildcard tests/test_tree.py tests/test_public_names.py tests/test_br*.py tests/test_[e-t]*.py tests/foundation tests/actions tests/budget tests/models tests/memory tests/journal tests/agent tests/spaces tests/conformance tests/extending)
# What tests one house: its folder, and what attacks or extends it, wherever that stands.
HOUSE   = $(wildcard tests/$* tests/attacks/$* tests/attacks/test_$*_*.py) $(shell grep -lEw "moothall\.$*" tests/attacks/test_*.py tests/extending/test_*.py)
SOURCE := $(wildcard src tests examples benchmarks)

# Two installations into one environment at once would break it; pytest is parallel by itself.
.NOTPARALLEL:
.DEFAULT_GOAL := help

# A copied or moved tree brings an environment that still points at the old place: without its stamps
# it is built again.
ifneq ($(wildcard $(VENV)/.directory),)
ifneq ($(shell cat $(VENV)/.directory),$(shell pwd -P))
$(shell rm -f $(VENV)/.local $(VENV)/.studio $(VENV)/.dev $(VENV)/.bench $(VENV)/.docs $(VENV)/.release)
endif
endif

.PHONY: help demo studio docs screenshots test test-core test-research test-evals test-society test-serving test-studio test-cli test-docs test-all bench breaks check format dist sbom weights clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p; s/^test-.*%:.*## \(.*\)/test-HOUSE\t\1/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-11s %s\n", $$1, $$2 }'

demo: weights ## Watch agents talk and act on a model in this process: no key, no server
	@$(RUN) examples/demo.py

studio: weights $(VENV)/.studio ## Open the page in your browser: agents, runs, research and a small city
	@$(RUN) examples/studio.py

docs: $(VENV)/.docs ## Build the documentation, and open it in your browser until Ctrl-C
	@echo "Building; then at http://127.0.0.1:8000/ until Ctrl-C ..."
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs serve --open --quiet

screenshots: weights $(VENV)/.dev ## Make the README's pictures of each tab, light and dark
	@scripts/chromium
	@$(RUN) scripts/screenshots.py

# What a test's file is rewritten to is kept: see scripts/read_tests.
test test-core test-research test-evals test-society test-serving test-studio test-cli test-docs test-all: export PYTHONDONTWRITEBYTECODE =

test: check weights ## Format, lint, types, then every test but the long ones
	@scripts/bubblewrap
	@command -v mandoc >/dev/null || scripts/apt mandoc
	@scripts/rabbitmq
	@scripts/redis
	@scripts/postgresql
	@scripts/chromium
	@scripts/aloud "Reading the tests" scripts/read_tests $(RUN) $(VENV)/.tests
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

test-core: $(VENV)/.dev ## The quick part, without broker, database, browser and weights: two minutes
	@scripts/bubblewrap
	@command -v mandoc >/dev/null || scripts/apt mandoc
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup -m "not long and not services" $(CORE) $(ARGS)

test-research test-evals test-society test-serving test-studio test-cli: test-%: weights $(VENV)/.dev ## One house: research, evals, society, serving, studio or cli
	@scripts/bubblewrap
	@command -v mandoc >/dev/null || scripts/apt mandoc
	@scripts/rabbitmq
	@scripts/postgresql
	@scripts/chromium
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup $(HOUSE) $(ARGS)

test-docs: weights $(VENV)/.dev $(VENV)/.docs ## The documentation: its programs run, its site is built strictly
	@scripts/rabbitmq
	@scripts/postgresql
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup -m "" tests/test_docs.py tests/test_prose.py tests/test_site.py $(ARGS)

test-all: check weights $(VENV)/.docs $(VENV)/.release build/corpora ## The same with the long tests: under an hour
	@scripts/bubblewrap
	@command -v mandoc >/dev/null || scripts/apt mandoc
	@scripts/rabbitmq
	@scripts/redis
	@scripts/postgresql
	@scripts/chromium
	@command -v systemd-analyze >/dev/null || scripts/apt systemd
	@command -v promtool >/dev/null || scripts/apt prometheus
	@command -v docker-compose >/dev/null || scripts/apt docker-compose
	@scripts/pythons
	@scripts/aloud "Reading the tests" scripts/read_tests $(RUN) $(VENV)/.tests
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup -m "" $(ARGS)

breaks: weights $(VENV)/.dev ## Draw small breaks, and tell which no test finds (ARGS="--draw 20 --seed 1 HOUSE")
	@scripts/bubblewrap
	@$(RUN) scripts/breaks.py $(ARGS)

bench: $(VENV)/.bench build/corpora weights ## Measure beside peers, and print the figures as JSON lines
	@scripts/rabbitmq >&2
	@scripts/postgresql >&2
	@scripts/chromium >&2
	@scripts/python-doc >&2
	@$(RUN) -m benchmarks $(ARGS)

check: $(VENV)/.dev ## Format, lint, names, boundaries and strict types, ours and users', without changing anything
	@scripts/aloud "Checking the format" $(RUN) -m ruff format --check --quiet $(SOURCE) || { echo "run: make format"; exit 1; }
	@scripts/aloud "Checking for lint" $(RUN) -m ruff check --quiet $(SOURCE)
	@scripts/aloud "Checking names" $(RUN) scripts/check_names.py
	@scripts/aloud "Checking boundaries" $(RUN) scripts/check_boundaries.py
	@scripts/aloud "Checking looks" $(RUN) scripts/check_looks.py
	@scripts/aloud "Checking types; the first time takes a minute" $(RUN) scripts/check_types.py
	@echo "format, lint, names, boundaries, looks and types: fine"

format: $(VENV)/.dev ## Bring the source into its format
	@$(RUN) -m ruff format $(SOURCE)
	@$(RUN) -m ruff check --fix $(SOURCE)

dist: $(VENV)/.release ## Build what would be uploaded, and check it; MOOTHALL_PROJECT_URL is where the links lead
	@rm -rf dist
	@$(RUN) -m build --quiet --outdir dist .
	@$(RUN) -m twine check --strict dist/*
	@$(RUN) -m check_wheel_contents dist/*.whl

# Of what pip installs with every extra, at the pinned versions. Not in dist/: that is uploaded whole.
sbom: dist ## Write the bill of materials, build/moothall.cdx.json (CycloneDX)
	@rm -rf build/sbom
	@$(RUN) -m venv --without-pip build/sbom
	@scripts/aloud "Installing what it lists" $(RUN) -m pip --python build/sbom/bin/python install -qq \
	    --no-input --constraint constraints.txt --find-links dist \
	    "moothall[all]==$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' src/moothall/__init__.py)"
	@$(RUN) -m cyclonedx_py environment --output-reproducible \
	    --output-file build/moothall.cdx.json build/sbom/bin/python
	@rm -rf build/sbom

# Quick when they are there already. Standard output belongs to the target, such as bench's figures.
weights: $(VENV)/.local
	@$(RUN) -m moothall models fetch >&2

clean: ## Remove the environment and every cache; the fetched weights stay
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(SOURCE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.local: pyproject.toml constraints.txt scripts/install
	@PYTHON='$(PYTHON)' scripts/install cli,local,amqp,society $@

$(VENV)/.studio: pyproject.toml constraints.txt scripts/install
	@PYTHON='$(PYTHON)' scripts/install cli,local,amqp,society,research,studio $@

$(VENV)/.dev: pyproject.toml constraints.txt scripts/install
	@PYTHON='$(PYTHON)' scripts/install all,dev $@ $(VENV)/.local $(VENV)/.studio

$(VENV)/.bench: pyproject.toml constraints.txt scripts/install
	@PYTHON='$(PYTHON)' scripts/install all,dev,bench $@ $(VENV)/.local $(VENV)/.dev

build/corpora: constraints.txt scripts/corpora $(VENV)/.dev
	@scripts/corpora
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt scripts/install
	@PYTHON='$(PYTHON)' scripts/install docs $@

$(VENV)/.release: pyproject.toml constraints.txt scripts/install
	@PYTHON='$(PYTHON)' scripts/install all,dev,release $@ $(VENV)/.local $(VENV)/.dev

