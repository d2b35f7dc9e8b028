"""`make reset`: forgets the local data. Refuses while the product runs from it."""

import fcntl
import shutil
import sys
from pathlib import Path

from marketplace.local.postgres import Postgres
from marketplace.local.preflight import explain
from marketplace.local.stack import ROOT


def main(folder: Path = ROOT / ".local") -> int:
    if not folder.exists():
        print("There is no local data.")
        return 0
    try:
        with (folder / "lock").open("a", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("The product still runs from it. Stop it first, with Ctrl-C.", file=sys.stderr)
                return 1
            Postgres(folder / "postgres").destroy()
            shutil.rmtree(folder)
    except OSError as error:
        print(explain(error, folder), file=sys.stderr)
        return 1
    print("The local data is gone.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
