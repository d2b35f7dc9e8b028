"""`make loop`, as a stranger runs it."""

import os
import re
import subprocess
import sys

import pytest

from marketplace.local.stack import OUTSIDE, ROOT


@pytest.mark.slow
@pytest.mark.xdist_group("stack")
def test_the_loop_ends_well_and_says_what_it_did():
    env = {name: value for name, value in os.environ.items() if name not in OUTSIDE} | {"DEBUG": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "marketplace.local.loop"],
        check=False, cwd=ROOT, env=env, capture_output=True, text=True, timeout=420,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(
        r"loop: rented 10 cards on 2 machines, logged in to both, metered \d+ s, issued 2 invoices of ¥[\d,.]+"
        r" equal at Stripe and in 3 exported rows\.",
        done.stdout.splitlines()[-1],
    )
