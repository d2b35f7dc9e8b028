"""`make check`: Django's system checks, a migration for every model change, every text marked and translated."""

import sys
import warnings

import django
from django.core.management import CommandError, call_command

from marketplace.local import literals, translations


def main() -> int:
    # The check asks the database which migrations ran, and may do without it.
    warnings.filterwarnings("ignore", message="Got an error checking a consistent migration history")
    django.setup()
    failed = []
    for name, arguments in {
        "system checks": ("check", "--fail-level", "WARNING"),
        "migrations": ("makemigrations", "--check", "--dry-run"),
    }.items():
        try:
            call_command(*arguments)
        except (CommandError, SystemExit) as error:
            print(f"{name}: {error}" if str(error) != "1" else f"{name}: a model change has no migration")
            failed.append(name)
    if unmarked := literals.check():
        print("\n".join(unmarked))
        failed.append("literals")
    if translations.main("check"):
        failed.append("translations")
    print("check: " + (f"failed ({', '.join(failed)})" if failed else "ok"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
