"""SSH public keys as people paste them: parsed by a library, refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass

import asyncssh
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from django.utils.translation import gettext_lazy as _

from marketplace.lib.refusals import Refusal

ACCEPTED = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
SMALLEST_RSA_BITS = 2048
LONGEST_KEY = 8192


class KeyRefused(Refusal):
    """This text is not a public key we accept."""

    @property
    def about_name(self) -> bool:
        """Whether it is the key's name that was refused, and not the key."""
        return self.code in {"name_taken", "unprintable_name"}


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One accepted key: `text` is algorithm and body without comment, `fingerprint` SHA256:… as OpenSSH prints it."""

    text: str
    algorithm: str
    fingerprint: str
    comment: str


def parse_public_key(text: str) -> PublicKey:
    """The one public key in `text`. Raises KeyRefused for private keys, DSA, short RSA, options, more lines, junk."""
    text = text.strip()
    if not text:
        raise KeyRefused("empty", _("Paste the public key, for example the content of ~/.ssh/id_ed25519.pub."))
    if "PRIVATE KEY" in text:
        raise KeyRefused(
            "private",
            _("This is a private key. Never share it; paste the public half, the file that ends in .pub."),
        )
    if len(text) > LONGEST_KEY:
        raise KeyRefused("too_long", _("This is too long for a public key."))
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        raise KeyRefused("line_break", _("A public key is a single line. Remove line breaks and add keys one by one."))
    algorithm, *rest = text.split(" ")
    if algorithm == "ssh-dss":
        raise KeyRefused("dsa", _("DSA keys are no longer secure. Create a new one with: ssh-keygen -t ed25519"))
    if algorithm not in ACCEPTED:
        if any(name in rest for name in (*ACCEPTED, "ssh-dss")):
            raise KeyRefused("options", _("Remove the options before the key; it must begin with its type."))
        raise KeyRefused(
            "unknown", _("Not a public key we know. Accepted: ed25519, RSA (2048 bits or more), ECDSA, sk-*.")
        )
    return _parse_body(algorithm, rest)


def _parse_body(algorithm: str, rest: list[str]) -> PublicKey:
    body = rest[0] if rest else ""
    try:
        key = asyncssh.import_public_key(f"{algorithm} {body}")
    except (asyncssh.KeyImportError, ValueError):
        raise KeyRefused("broken", _("The key is incomplete or damaged. Copy the whole line again.")) from None
    if key.get_algorithm() != algorithm:
        raise KeyRefused("broken", _("The key is incomplete or damaged. Copy the whole line again."))
    if isinstance(key.pyca_key, RSAPublicKey) and key.pyca_key.key_size < SMALLEST_RSA_BITS:
        raise KeyRefused(
            "short_rsa", _("RSA keys need at least 2048 bits. Create a new one with: ssh-keygen -t ed25519")
        )
    return PublicKey(
        text=f"{algorithm} {body}",
        algorithm=algorithm,
        fingerprint=key.get_fingerprint("sha256"),
        comment=" ".join(rest[1:]).strip(),
    )
