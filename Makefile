# The commands of this project; `make` alone lists them. Everything they need beyond Python ≥ 3.11 is installed
# into .venv, everything they keep lies in .local.

.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv/bin
# Local stand-ins (embedded servers, Stripe sandbox, demo machines) refuse to load without it. Exported rather than
# written before the commands, so that make starts them without a shell in between that would swallow signals.
run reset loop bench lighthouse types check messages: export DEBUG := 1
T ?= tests
CODE := accounts billing catalog marketplace orders rentals trust tests benchmarks manage.py

# The first Python of these that is new enough; `make run PYTHON=/path/to/python3.12` chooses another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python3.14 python; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
NO_PYTHON = No Python 3.11 or newer was found. Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: make run PYTHON=/path/to/python3

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

.PHONY: python runtime dev system
python:
	@test -n "$(PYTHON)" || { echo "$(NO_PYTHON)" >&2; exit 1; }

runtime: python
	@$(PYTHON) -I marketplace/local/bootstrap.py run

dev: python
	@$(PYTHON) -I marketplace/local/bootstrap.py test

# Chromium and a Chinese font: what the browser tests need and pip cannot bring.
system: python
	@$(PYTHON) -I marketplace/local/debian.py

.PHONY: run reset loop bench lighthouse
run: runtime ## the whole product on this machine (PORT=8000); Ctrl-C ends it, data stays
	@$(VENV)/python -m marketplace.local.run

reset: ## forget the local data
	@if test -x $(VENV)/python; then $(VENV)/python -m marketplace.local.reset; else rm -rf .local; fi

loop: dev ## sign up, rent, log in, pay, export against a fresh stack of its own
	@$(VENV)/python -m marketplace.local.loop

bench: dev ## every figure as a ratio, or one: ONLY=catalogue
	@$(VENV)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

lighthouse: dev system ## the pages as Lighthouse sees a phone load them (npm; RUNS=5), or one: ONLY=home
	@$(VENV)/python -m benchmarks.lighthouse $(if $(ONLY),--only $(ONLY))

.PHONY: test test-some test-full
test: dev system ## the tests, slow suites excluded
	@$(VENV)/python -m pytest -n 2 --dist loadgroup

test-some: dev ## some tests: T=tests/orders
	@$(VENV)/python -m pytest -n 0 $(T)

test-full: dev system ## the slow suites alone: kill matrices, every journey and width, soaks
	@$(PYTHON) -I marketplace/local/debian.py --office
	@$(VENV)/python -m pytest -n 2 --dist loadgroup -m slow

.PHONY: test-stripe
test-stripe: dev ## what must hold at Stripe too, in its test mode: STRIPE_SECRET_KEY=sk_test_…
	@case "$$STRIPE_SECRET_KEY" in sk_test_*|rk_test_*) ;; \
	  *) echo "Give a key of Stripe's test mode: make test-stripe STRIPE_SECRET_KEY=sk_test_…" >&2; exit 2;; esac
	@STRIPE_TEST_MODE=1 $(VENV)/python -m pytest -n 0 -m stripe tests/stripe

.PHONY: lint types check messages
lint: dev ## ruff: rules and format
	@$(VENV)/ruff check $(CODE)
	@$(VENV)/ruff format --check $(CODE)

types: dev ## mypy on the floors' logic
	@$(VENV)/mypy

check: lint ## rules and format, migrations complete, translations complete, Django's own checks
	@$(VENV)/python -m marketplace.local.checks

messages: dev ## gather translatable texts into locale/*/LC_MESSAGES/django.po
	@$(VENV)/python -m marketplace.local.translations gather

.PHONY: clean
clean: ## remove what tools left behind; keeps .venv and .local
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis staticfiles
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
