"""Facts, names, secrets and the registry: pure, no engine."""

import logging
import pickle
from dataclasses import FrozenInstanceError, replace
from uuid import UUID

import pytest
from django.utils import translation

from rentals import drivers
from rentals.drivers import errors
from rentals.drivers.base import (
    Connection,
    MemberSpec,
    Secret,
    machine_name,
    resolve_credential,
)
from rentals.drivers.errors import AuthError, InvalidSpec, Unsupported
from tests.engines.bench import Bench

RENTAL = UUID("0123456789abcdef0123456789abcdef")


def test_names_come_from_ids():
    assert machine_name(RENTAL, 3, 1) == "r-0123456789ab-g3-1"


def test_a_spec_is_frozen_and_checked():
    spec = Bench().spec(rental=RENTAL, cards=2)

    with pytest.raises(FrozenInstanceError):
        spec.vcpus = 1
    with pytest.raises(InvalidSpec):
        replace(spec, members=())
    with pytest.raises(InvalidSpec):
        replace(spec, members=(MemberSpec(1, "h", ("a", "b")),))
    with pytest.raises(InvalidSpec):
        replace(spec, members=(MemberSpec(0, "h", ("a", "a")),))


def test_the_hash_is_the_same_in_every_process():
    assert Bench().spec(rental=RENTAL, cards=2).hash[:12] == "817ae419980e"


def test_credentials_are_read_by_reference(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.setenv("SOME_TOKEN", "from-env")

    assert resolve_credential("env:SOME_TOKEN").reveal() == "from-env"
    assert resolve_credential(f"file:{tmp_path}/token").reveal() == "from-file"
    monkeypatch.setenv("SOME_TOKEN_FILE", str(tmp_path / "token"))
    assert resolve_credential("env:SOME_TOKEN").reveal() == "from-file"


@pytest.mark.parametrize("reference", ["env:NOT_SET_AT_ALL", "file:/nowhere/token", "env:", "file:", "", "hunter2"])
def test_a_credential_that_cannot_be_read_is_an_auth_error_that_tells_no_secret(reference):
    with pytest.raises(AuthError) as refusal:
        resolve_credential(reference)

    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_secret_shows_nowhere(caplog):
    connection = Connection("http://127.0.0.1:1", Secret("hunter2"))

    caplog.set_level(logging.DEBUG)
    logging.getLogger("test").warning("%s %r %s", connection, connection.credential, [connection])

    assert "hunter2" not in caplog.text + repr(connection) + str(connection.credential) + f"{connection!r:>200}"
    with pytest.raises(TypeError):
        pickle.dumps(connection)


def test_demo_is_refused_when_debug_is_off(settings):
    settings.DEBUG = False

    with pytest.raises(Unsupported):
        drivers.connect("demo", Connection("http://127.0.0.1:1", Secret("x")))


def test_an_unknown_kind_is_refused(settings):
    settings.DEBUG = True

    with pytest.raises(Unsupported):
        drivers.connect("abacus", Connection("http://127.0.0.1:1", Secret("x")))


def test_every_error_has_its_own_code_and_words_for_the_customer():
    with translation.override("en"):
        for error in errors.ALL:
            assert str(error.message)
            assert str(error("raw 500 traceback").message) == str(error.message)

    assert set(errors.ALL) == set(errors.DriverError.__subclasses__())
    assert len({error.code for error in errors.ALL}) == len(errors.ALL) == 10
