"""The sandbox as `make run` starts it: a process with a state file."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import stripe

from tests.stripe.conftest import open_invoice

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def start(tmp_path):
    running = []

    def launch(**extra):
        process = subprocess.Popen(
            [sys.executable, "-m", "marketplace.local.stripe_sandbox"],
            cwd=ROOT,
            env={**os.environ, "DEBUG": "1", "STRIPE_SANDBOX_PORT": "0", "STRIPE_API_KEY": "sk_test_process",
                 "STRIPE_SANDBOX_STATE": str(tmp_path / "state" / "stripe.sqlite3"), "STRIPE_WEBHOOK_URL": "", **extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield launch
    for process in running:
        process.kill()
        process.communicate()


def address(process):
    return re.search(r"http://\S+", process.stdout.readline()).group()


def services(process):
    return stripe.StripeClient("sk_test_process", base_addresses={"api": address(process)}).v1


def test_a_killed_sandbox_comes_back_with_everything(start):
    first = start()
    api = services(first)
    invoice = open_invoice(api)
    keyed = api.customers.create({"name": "甲"}, {"idempotency_key": "k"})
    first.send_signal(signal.SIGKILL)
    first.wait()

    api = services(start())

    again = api.invoices.retrieve(invoice.id)
    assert (again.status, again.total) == ("open", 10_600)
    assert again.hosted_invoice_url.split("/")[-1] == invoice.hosted_invoice_url.split("/")[-1]
    assert api.customers.create({"name": "甲"}, {"idempotency_key": "k"}).id == keyed.id


def test_it_ends_quietly_when_asked(start):
    process = start()
    address(process)

    process.send_signal(signal.SIGTERM)

    _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ({"STRIPE_SANDBOX_STATE": "/proc/nowhere/x"}, "/proc/nowhere/x"),
        ({"STRIPE_API_KEY": "sk_live_1"}, "live Stripe key"),
    ],
)
def test_it_says_why_it_cannot_start(start, extra, word):
    _, errors = start(**extra).communicate(timeout=20)

    assert errors.startswith("Stripe sandbox: cannot start")
    assert word in errors
    assert "sk_live_1" not in errors
