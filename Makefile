# Everything runs in .venv, which the first target that needs it makes. `make help` lists targets.
PYTHON ?= python3
BIN := .venv/bin
DATA ?= contrast
SEEDS ?= 6
NUM ?= 300
# Where pip finds a torch without CUDA, gigabytes smaller; `make setup CPU_WHEELS=` takes PyPI's.
CPU_WHEELS ?= https://download.pytorch.org/whl/cpu

.DEFAULT_GOAL := help
.PHONY: help setup ablation studies test test-slow mutants audit release-check check smoke lowest bench docs clean

help:  ## This list
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/installed  ## Make .venv with everything at its tested version

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Try make PYTHON=python3.12."; exit 2; }
	$(PYTHON) -m venv .venv
	@echo 'Installing into .venv, torch without CUDA; one to three minutes.'
	@$(BIN)/pip install -qq --disable-pip-version-check --retries 1 -c constraints.txt \
	  $(if $(CPU_WHEELS),--extra-index-url $(CPU_WHEELS)) torch
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[baseline,dev]'
	@touch $@

ablation: setup  ## With and without positional encoding (DATA=contrast or imdb, SEEDS=6)
	$(if $(filter imdb,$(DATA)),@echo 'Six seeds of IMDB take about ten minutes on two idle cores.')
	@$(BIN)/attnexp sweep study=blog name=blog_$(DATA) data=$(DATA) 'seed=range($(SEEDS))'

DATA_SETS = data=trec,subj,cr,mpqa,sst2,emotion,irony

studies: setup  ## The published studies, on their declared seeds (many hours on two cores)
	$(BIN)/attnexp sweep study=blog 'seed=range(100,140)'
	$(BIN)/attnexp sweep study=blog_scaled 'seed=range(100,140)'
	$(BIN)/attnexp sweep study=position_x_scale 'seed=range(100,120)'
	$(BIN)/attnexp sweep study=blog_cells 'seed=range(100,110)'
	$(BIN)/attnexp sweep study=position 'seed=range(100,120)'
	$(BIN)/attnexp sweep study=heads 'seed=range(100,116)'
	$(BIN)/attnexp sweep study=baselines 'seed=range(100,112)'
	$(BIN)/attnexp sweep study=variance 'seed=range(100,103)'
	$(BIN)/attnexp sweep study=blog_unscaled_holdout 'seed=range(100,200)' --until decided
	$(BIN)/attnexp sweep study=blog_holdout 'seed=range(100,200)' --until decided
	$(BIN)/attnexp sweep study=blog $(DATA_SETS) 'seed=range(200,210)' out=outputs/data
	$(BIN)/attnexp sweep study=blog_scaled $(DATA_SETS) 'seed=range(200,210)' out=outputs/data
	$(BIN)/attnexp sweep study=position_x_embedding $(DATA_SETS) 'seed=range(200,206)' out=outputs/data
	$(BIN)/attnexp sweep study=shuffled_x_embedding $(DATA_SETS) 'seed=range(200,206)' out=outputs/data
	$(BIN)/attnexp sweep study=blog data.limit_train=3000,10000 'seed=range(200,206)' out=outputs/sizes
	$(BIN)/attnexp sweep study=blog data.max_len=20,40 'seed=range(200,206)' out=outputs/lengths
	$(BIN)/attnexp sweep study=blog data=trec,cr,irony train.epochs=20 'seed=range(200,206)' out=outputs/epochs
	$(BIN)/attnexp probe outputs/blog --do shuffle,no_positions,uniform,no_head,attention --limit 10000

# pytest rewrites all modules of the plugins that it finds by itself, so that every process of the
# tests would compile hypothesis anew.
PYTEST := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m pytest -p xdist -p hypothesispytest

test: setup  ## The tests, slow ones left out
	$(PYTEST) -q -n auto --dist worksteal

.venv/executors: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[slurm,ray]'
	@touch $@

test-slow: setup .venv/executors  ## The slow tests alone, with Ray and submitit
	$(PYTEST) -q -m slow -n auto --dist loadfile

.venv/scrutiny: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[scrutiny]'
	@touch $@

mutants: setup .venv/scrutiny  ## Wrong code, and which of it no test notices (NUM=300; hours)
	$(BIN)/python dev/mutants.py --num $(NUM)

audit: setup .venv/scrutiny  ## Known weaknesses of what constraints.txt pins (asks the network)
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

# From another folder, by nothing but what was built: no checkout is on the path. A constraint such as
# torch==2.13.0 also fits 2.13.0+cpu, which pip prefers where an index has it.
release-check: setup .venv/scrutiny  ## Build wheel and sdist, and run each in an empty environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	@set -e; for built in "$$PWD"/dist/*; do \
	  there=$$(mktemp -d); trap 'rm -rf "$$there"' EXIT; \
	  $(PYTHON) -m venv "$$there/venv"; \
	  "$$there/venv/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt \
	    --extra-index-url $(CPU_WHEELS) "$$built"; \
	  "$$there/venv/bin/python" -c 'import torch; assert torch.version.cuda is None, torch.__version__'; \
	  (cd "$$there"; unset PYTHONPATH; \
	   venv/bin/attnexp train experiment=smoke --json > run.json; \
	   venv/bin/attnexp report outputs/runs --figure curves.svg); \
	  rm -rf "$$there"; echo "$${built##*/}: installed and run"; \
	done

check: setup  ## Lint, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

smoke: setup  ## The whole path once, in seconds (DATA=contrast or imdb)
	$(BIN)/attnexp train experiment=smoke data=$(DATA)

.venv-lowest/installed: pyproject.toml constraints.txt dev/lowest.py
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) dev/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check -r .venv-lowest/lowest.txt \
	  $(if $(CPU_WHEELS),--extra-index-url $(CPU_WHEELS)) "$$(grep '^torch==' constraints.txt)"
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

# Not in .ci/run: the installation takes one to two minutes.
lowest: .venv-lowest/installed  ## The smoke with the lowest version of every dependency but torch
	.venv-lowest/bin/attnexp train experiment=smoke data=contrast

.venv-keras/installed: benchmarks/keras.txt
	$(PYTHON) -m venv .venv-keras
	.venv-keras/bin/pip install --quiet --disable-pip-version-check -r benchmarks/keras.txt
	@touch $@

bench: setup .venv-keras/installed  ## Timings beside Keras and others (DATA=PATH of IMDB, ONLY=sections)
	$(BIN)/python benchmarks/bench.py $(if $(filter-out contrast,$(DATA)),--data '$(DATA)') \
	  $(if $(ONLY),--only $(ONLY))

docs: setup  ## The parts of README.md and docs/ that commands make (PARTS="settings pieces")
	$(BIN)/python docs/make.py $(PARTS)
	$(BIN)/attnexp report outputs/published/blog --figure docs/blog.svg
	$(BIN)/attnexp report outputs/published/blog_data outputs/published/blog \
	  --figure docs/data.svg --show forest

clean:  ## Remove .venv, caches and builds; outputs/ stays
	rm -rf .venv .venv-keras .venv-lowest build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
