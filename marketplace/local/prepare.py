"""Schema, catalogue and demo data in one process, because each start of Django costs a second."""

import django
from django.core.management import call_command


def main() -> None:
    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    call_command("load_catalog")
    call_command("load_trust")
    call_command("seed_demo")


if __name__ == "__main__":
    main()
