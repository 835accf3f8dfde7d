# Everything happens in .venv, which the first target that needs it makes; nothing else on the machine is touched.
#
#   make demo     the main job on real functions
#   make test     the tests; with ARGS=--durations=40 the slowest of them
#   make test-browser  the tests of explorer pages in Chromium, with Playwright and axe-core, which needs npm
#   make check    linter, formatter's check, strict type check, and which package imports which
#   make bench    measurements against CasADi, JAX and SymPy
#   make tables   write the tables and the chart of the documentation from what make bench ARGS="NAME --store" measured
#   make bench-symforce  the same against SymForce, which has an environment of its own
#   make bench-peers  against heyoka, SymEngine, Symbolica and ddx, in an environment of their own
#   make bench-search  what the search reaches, and what it proves; some minutes
#   make contract operations and results as they were, bit for bit; times beside an old checkout with ARGS="--against PATH"
#   make fuzz     every function at every order, 100,000 random programs, changed files; threads, forks, kills; hours;
#                 with ARGS=--suites functions of other people's packages instead, in an environment of their own
#   make fuzz-tests    the property tests, with many more examples
#   make docs     the site of the documentation, into build/site
#   make figures  draw the figures and plots of the documentation; needs Graphviz
#   make wheel    build sdist and wheel into dist, and try the wheel in an empty environment
#   make assets   fetch what explorer pages need of KaTeX, and make the package's files of it; needs npm
#   make screenshots  take the pictures of docs/explorer.md; needs Chromium
#   make format   rewrite the sources as the formatter wants them
#   make clean    remove .venv and everything that tools have left behind
#
# Another Python: make demo PYTHON=/path/to/python3.12. Other test processes: make test JOBS=8.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
JOBS ?= 2
BIN := .venv/bin
STAMPS := .venv/installed
KERNELS := $(wildcard setup.py src/accumulus/native/*.py src/accumulus/*/compiled/*.py)

.PHONY: demo test test-browser check bench bench-search bench-symforce bench-peers tables contract fuzz fuzz-tests docs figures wheel assets screenshots format clean
.DELETE_ON_ERROR:

demo: $(STAMPS)/runtime $(STAMPS)/kernels
	@$(BIN)/python benchmarks/demo.py

test: $(STAMPS)/test $(STAMPS)/kernels
	$(BIN)/python -m pytest --numprocesses $(JOBS) $(ARGS)

test-browser: $(STAMPS)/test $(STAMPS)/browser $(STAMPS)/kernels
	@command -v $${CHROMIUM:-chromium} >/dev/null || { echo "no chromium found: apt-get install chromium, or name \
	one: make test-browser CHROMIUM=/path/to/chrome" >&2; exit 1; }
	@[ -f build/npm/node_modules/axe-core/axe.min.js ] || npm install --silent --prefix build/npm axe-core@4.14.1
	CHROMIUM=$$(command -v $${CHROMIUM:-chromium}) $(BIN)/python -m pytest tests/show/test_explorer_in_browser.py

check: $(STAMPS)/check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMPS)/bench $(STAMPS)/kernels
	$(BIN)/python benchmarks/bench.py $(ARGS)

bench-search: $(STAMPS)/bench $(STAMPS)/kernels
	$(BIN)/python benchmarks/bench.py search $(ARGS)

bench-symforce: $(STAMPS)/bench $(STAMPS)/kernels build/symforce/installed
	$(BIN)/python benchmarks/bench.py symforce-code $(ARGS)

build/symforce/installed: requirements/symforce.txt | $(STAMPS)/venv
	@$(BIN)/python -m venv build/symforce
	@build/symforce/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

bench-peers: $(STAMPS)/bench $(STAMPS)/kernels build/peers/installed
	$(BIN)/python benchmarks/bench.py peers ensembles $(ARGS)

build/peers/installed: requirements/peers.txt | $(STAMPS)/venv
	@$(BIN)/python -m venv build/peers
	@build/peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

build/suites/installed: requirements/suites.txt | $(STAMPS)/venv
	@$(BIN)/python -m venv build/suites
	@build/suites/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

tables: | $(STAMPS)/venv
	@$(BIN)/python benchmarks/pages.py
	@$(BIN)/python benchmarks/chart.py

contract: $(STAMPS)/bench $(STAMPS)/kernels
	$(BIN)/python benchmarks/contract.py $(ARGS)

fuzz: $(STAMPS)/test $(STAMPS)/kernels $(if $(findstring --suites,$(ARGS)),build/suites/installed)
	$(BIN)/python tests/fuzz/driver.py --jobs $(JOBS) $(ARGS)

fuzz-tests: $(STAMPS)/test $(STAMPS)/kernels
	$(BIN)/python -m pytest tests --numprocesses $(JOBS) --hypothesis-profile fuzz

docs: $(STAMPS)/docs
	$(BIN)/python docs/site_pages.py
	$(BIN)/zensical build --clean --strict
	@echo "the site is build/site/index.html"

figures: $(STAMPS)/test
	$(BIN)/python docs/plots.py
	$(BIN)/python docs/figures.py

# The wheel is built from the sdist, so that neither lacks a file.
wheel: $(STAMPS)/kernels
	rm -rf dist build/empty
	$(BIN)/python -c "from setuptools.build_meta import build_sdist; build_sdist('dist')" >/dev/null
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
	$(BIN)/python -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/empty && bin/python -I ../../tests/smoke.py && bin/accumulus methods >/dev/null
	@ls -l dist

assets: | $(STAMPS)/venv
	$(BIN)/python docs/explorer_assets.py

screenshots: $(STAMPS)/browser $(STAMPS)/kernels
	$(BIN)/python docs/screenshots.py

format: $(STAMPS)/check
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# A stamp says which requirements are installed; when they change, they are installed again.
$(STAMPS)/%: requirements/%.txt requirements/runtime.txt $(STAMPS)/package
	@echo "installing requirements/$*.txt into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# Kernels that changed are compiled again; so searches start at once, and never need Numba themselves.
$(STAMPS)/kernels: $(KERNELS) $(STAMPS)/package
	@$(BIN)/python -m accumulus.native
	@touch $@

$(STAMPS)/package: requirements/build.txt pyproject.toml setup.py | $(STAMPS)/venv
	@echo "installing accumulus into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMPS)/venv:
	@if [ -z "$(PYTHON)" ]; then \
	    echo "no Python 3.11 or newer found; name one: make demo PYTHON=/path/to/python3" >&2; exit 1; fi
	@echo "making .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@mkdir -p $(STAMPS) && touch $@

clean:
	rm -rf .venv build dist src/*.egg-info src/accumulus/native/shipped .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
