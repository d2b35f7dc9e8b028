"""The Debian packages that the browser tests need, and with `--office` LibreOffice, which the slow tests open exports
with: installed when root, named otherwise. Standard library only."""

import os
import shutil
import subprocess
import sys

CHROMIUM, FONTS, OFFICE = "chromium", "fonts-wqy-microhei", "libreoffice-calc-nogui"


def missing(*, office: bool = False) -> list[str]:
    """Package names of what is not there. Chrome and any Chinese font are as good as the packages named here."""
    wanted = []
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        wanted.append(CHROMIUM)
    if not has_chinese_font():
        wanted.append(FONTS)
    if office and not any(shutil.which(name) for name in ("soffice", "libreoffice")):
        wanted.append(OFFICE)
    return wanted


def has_chinese_font() -> bool:
    try:
        done = subprocess.run(["fc-list", ":lang=zh-cn", "family"], capture_output=True, check=False)
    except OSError:
        return False
    return bool(done.stdout.strip())


def main() -> int:
    office = "--office" in sys.argv[1:]
    packages = missing(office=office)
    if not packages:
        return 0
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages, "fontconfig"]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"The tests need {' and '.join(packages)}.", file=sys.stderr)
        print(f"Install first: sudo {' '.join(command)}", file=sys.stderr)
        return 1
    print(f"Installing {' and '.join(packages)} for the tests …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update"], command):
        done = subprocess.run(step, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            print(f"Could not install them. Try it by hand: {' '.join(command)}", file=sys.stderr)
            return 1
    return 0 if not missing(office=office) else 1


if __name__ == "__main__":
    sys.exit(main())
