"""The demo customer's SSH key pair: made on this machine, so that a newcomer can log in to what they rent at once."""

from pathlib import Path

import asyncssh

from marketplace.local.postgres import write_private


def demo_public_key(private_file: Path) -> str:
    """The public half of the key at `private_file`; the pair is made there first when it is missing."""
    if not private_file.exists():
        private_file.parent.mkdir(parents=True, exist_ok=True)
        key = asyncssh.generate_private_key("ssh-ed25519", comment="demo")
        write_private(private_file, key.export_private_key().decode())
    return asyncssh.read_private_key(private_file).export_public_key().decode().strip()
