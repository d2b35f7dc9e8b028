"""Which SSH public keys are accepted, and why the others are refused."""

import base64
import struct

import asyncssh
import pytest

from accounts import actions
from accounts.keys import KeyRefused, parse_public_key
from accounts.models import SshKey
from tests import factories


def public(algorithm: str, **options) -> str:
    return asyncssh.generate_private_key(algorithm, **options).export_public_key().decode().strip()


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("ssh-ed25519", {}),
        ("ssh-rsa", {"key_size": 2048}),
        ("ecdsa-sha2-nistp256", {}),
        ("ecdsa-sha2-nistp521", {}),
    ],
)
def test_ordinary_keys_are_accepted(algorithm, options):
    key = parse_public_key(public(algorithm, comment="小王的笔记本", **options) + "  ")

    assert key.algorithm == algorithm
    assert key.comment == "小王的笔记本"
    assert key.fingerprint.startswith("SHA256:")


def test_a_security_key_is_accepted():
    """The body of an sk key made by hand from its parts (PROTOCOL.u2f): type, 32 bytes of key, application."""

    def part(value: bytes) -> bytes:
        return struct.pack(">I", len(value)) + value

    name = b"sk-ssh-ed25519@openssh.com"
    plain = asyncssh.generate_private_key("ssh-ed25519").public_data[-32:]
    body = base64.b64encode(part(name) + part(plain) + part(b"ssh:")).decode()

    assert parse_public_key(f"{name.decode()} {body}").algorithm == name.decode()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----", "private"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACBAP1", "dsa"),
        (f'command="rm -rf /" {factories.ED25519}', "options"),
        (f"{factories.ED25519}\n{factories.ED25519}", "line_break"),
        (f"{factories.ED25519}\x00", "line_break"),
        ("ssh-ed25519 AAAA", "broken"),
        ("ssh-ed25519", "broken"),
        ("ssh-rsa " + factories.ED25519.split(" ")[1], "broken"),
        ("你好", "unknown"),
        ("ssh-ed25519 " + "A" * 9000, "too_long"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text, code):
    with pytest.raises(KeyRefused) as refusal:
        parse_public_key(text)

    assert refusal.value.code == code
    assert str(refusal.value.message)


def test_short_rsa_is_refused():
    with pytest.raises(KeyRefused) as refusal:
        parse_public_key(public("ssh-rsa", key_size=1024))

    assert refusal.value.code == "short_rsa"


@pytest.mark.django_db
def test_a_key_is_stored_once_per_organization():
    first, second = factories.organization(), factories.organization(name="乙")
    text = factories.new_public_key()
    actions.add_ssh_key(organization=first, name="a", text=text, actor=None, at=factories.NOON)

    with pytest.raises(KeyRefused) as refusal:
        actions.add_ssh_key(organization=first, name="b", text=text + " again", actor=None, at=factories.NOON)
    actions.add_ssh_key(organization=second, name="a", text=text, actor=None, at=factories.NOON)

    assert refusal.value.code == "duplicate"
    assert SshKey.objects.filter(organization=first).count() == 1


@pytest.mark.django_db
def test_a_taken_name_is_refused():
    organization = factories.organization()
    factories.ssh_key(organization, name="笔记本")

    with pytest.raises(KeyRefused) as refusal:
        factories.ssh_key(organization, name="笔记本")

    assert refusal.value.code == "name_taken"
