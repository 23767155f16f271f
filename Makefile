# Each target sets itself up: a virtual environment in .venv with the exact versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One thread per process: two on a busy two-core machine are slower, not faster.
export OMP_NUM_THREADS := 1

.PHONY: help setup demo walk test test-slow test-mjlab test-jax lint bench figures docs clean

help:
	@echo "make demo       train, evaluate and audit two policies side by side; a page about them (five minutes)"
	@echo "make walk       a Unitree G1 that learns to walk, and its page (about two hours on two cores; resumes if stopped)"
	@echo "make test       the fast tests, what CI runs"
	@echo "make test-slow  the long ones: 1e8 adversarial cases, torch.compile, a hundred kills"
	@echo "make test-mjlab the adapter, the action term and PPO in real mjlab on a CPU (an environment of its own, 2 GB; minutes)"
	@echo "make test-jax   Brax, MuJoCo Playground and SBX under limits on a CPU (an environment of its own; minutes)"
	@echo "make lint       ruff and mypy"
	@echo "make figures    every published table, figure and page from results/, without training"
	@echo "make docs       the documentation as a site, in site/"
	@echo "make bench      the guarantee, the cost of every layer, and training beside SB3 and SBX, as tables"

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	@touch $@

.venv/.bench: .venv/.installed
	$(BIN)/python -m pip install --quiet -e ".[dev,bench]"
	@touch $@

demo: setup
	$(BIN)/slewrl demo

# Stopped anywhere, the same command goes on from the last checkpoint, and a finished run is kept.
walk: setup
	$(BIN)/slewrl campaign run walk --workers 2
	$(BIN)/slewrl report runs/walk --html
	for run in runs/walk/G1-flat-*; do \
		$(BIN)/slewrl export $$run --out $$run/policy.bundle --force || exit 1; \
		$(BIN)/slewrl play $$run --command 0.8 0 0 --picture $$run/walk.png || exit 1; \
	done

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: setup
	$(BIN)/python -m pytest -n 2 -m slow

# An environment of its own: mjlab's viewer wants an older rich than the rest.
.venv-mjlab/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-mjlab
	grep -v '^rich==' constraints.txt > .venv-mjlab/constraints.txt
	PIP_CONSTRAINT=$(CURDIR)/.venv-mjlab/constraints.txt .venv-mjlab/bin/python -m pip install --quiet -e ".[mjlab]" pytest
	@touch $@

test-mjlab: .venv-mjlab/.installed
	.venv-mjlab/bin/python -m pytest tests/integrations/test_mjlab.py tests/integrations/test_action_term.py tests/integrations/test_rsl_rl.py

# An environment of its own, for what Brax and Playground bring along.
.venv-jax/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python -m pip install --quiet -e ".[playground,sbx]" pytest
	@touch $@

test-jax: .venv-jax/.installed
	.venv-jax/bin/python -m pytest tests/integrations/test_jax.py tests/integrations/test_jax_env.py \
		tests/integrations/test_playground.py tests/integrations/test_sbx.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.bench
	$(BIN)/python -W ignore benchmarks/layers.py
	$(BIN)/python benchmarks/guarantee.py --cases 1e8 --workers 2
	$(BIN)/python benchmarks/train.py

figures: setup
	for campaign in results/*/campaign.json; do \
		folder=$$(dirname $$campaign); $(BIN)/slewrl report $$folder --html --out $$folder/report || exit 1; \
	done
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_calm.py

docs: setup
	$(BIN)/python docs/make_methods.py --check
	$(BIN)/python docs/make_calm.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf site .venv .venv-mjlab .venv-jax demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
