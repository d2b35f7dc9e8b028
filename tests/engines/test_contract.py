"""What every driver promises, run against a real engine. A new driver joins by adding its bench."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from uuid import uuid4

import asyncssh
import pytest

from rentals.drivers.base import (
    Accelerator,
    Destroyed,
    Fault,
    MemberSpec,
    MemberState,
    PowerVerb,
)
from rentals.drivers.errors import (
    Ambiguous,
    AuthError,
    ImageError,
    InvalidSpec,
    NoCapacity,
    NodeLost,
    Transient,
    UnknownOutcome,
    Unsupported,
)
from tests.engines import logins
from tests.engines.bench import CUSTOMER, INSTALLATION, STRANGER, public_line
from tests.support.waiting import wait_for


def test_ensure_returns_at_once_and_the_machine_comes_up(bench):
    spec = bench.spec()

    first = bench.driver.ensure(spec)
    assert first.state in {MemberState.CREATING, MemberState.BOOTING}
    assert (first.installation, first.rental, first.generation) == (INSTALLATION, spec.rental, 1)
    assert first.spec_hash == spec.hash

    running = bench.reach(spec.rental, MemberState.RUNNING)
    (member,) = running.members
    assert member.name == f"r-{spec.rental.hex[:12]}-g1-0"
    assert member.node == "host-0"
    assert member.cards == running.cards == spec.members[0].cards
    assert running.endpoint.user == "root"
    assert running.fingerprint == asyncssh.import_public_key(running.host_key).get_fingerprint()


def test_ensure_twice_adopts_the_same_machine(bench):
    spec = bench.spec()
    running = bench.running(spec)

    assert bench.driver.ensure(spec) == running
    assert bench.names(spec.rental) == [spec.name(0)]


def test_a_lost_answer_leaves_one_machine(bench):
    spec = bench.spec()
    bench.faults(drop_answers=1)

    with pytest.raises(UnknownOutcome):
        bench.driver.ensure(spec)
    running = bench.running(spec)

    assert bench.names(spec.rental) == [spec.name(0)]
    assert running.endpoint == bench.driver.ensure(spec).endpoint


def test_an_answer_that_comes_too_late_is_an_unknown_outcome(bench, monkeypatch):
    spec = bench.spec()
    bench.running(spec)
    monkeypatch.setattr(bench.driver._http, "timeout", 1.0)
    bench.faults(delay_seconds=3)

    with pytest.raises(Transient):
        bench.driver.observe(spec.rental)
    bench.faults(delay_seconds=0)
    find = bench.driver._find

    def slow_from_here(**labels):
        found = find(**labels)
        bench.faults(delay_seconds=3)
        return found

    monkeypatch.setattr(bench.driver, "_find", slow_from_here)
    with pytest.raises(UnknownOutcome):
        bench.driver.power(spec.rental, PowerVerb.STOP)


def test_an_engine_failure_is_transient_and_makes_nothing(bench):
    spec = bench.spec()
    bench.faults(errors=1)

    with pytest.raises(Transient) as refusal:
        bench.driver.ensure(spec)

    assert refusal.value.retry_after > 0
    assert bench.driver.observe(spec.rental) is None


def test_an_engine_that_is_down_is_transient_not_absent(bench):
    spec = bench.spec()
    bench.running(spec)
    bench.engine.kill()
    try:
        for call in (
            lambda: bench.driver.observe(spec.rental),
            lambda: bench.driver.ensure(spec),
            lambda: bench.driver.destroy(spec.rental),
            lambda: list(bench.driver.list_owned(INSTALLATION)),
        ):
            with pytest.raises(Transient):
                call()
    finally:
        bench.engine.start()


def test_the_customers_key_logs_in_and_another_does_not(bench):
    spec = bench.spec()
    (member,) = bench.running(spec).members

    said = logins.run(member, CUSTOMER, "cards --json")
    assert [card["serial"] for card in json.loads(said.out)["cards"]] == list(spec.members[0].cards)
    with pytest.raises(asyncssh.PermissionDenied):
        logins.run(member, STRANGER, "cards")
    with pytest.raises(asyncssh.PermissionDenied):
        logins.run(member, CUSTOMER, "cards", user="admin")


def test_set_keys_replaces_who_may_log_in(bench):
    spec = bench.spec()
    (member,) = bench.running(spec).members

    bench.driver.set_keys(spec.rental, [public_line(STRANGER)])

    assert logins.run(member, STRANGER, "whoami").out == "root\n"
    with pytest.raises(asyncssh.PermissionDenied):
        logins.run(member, CUSTOMER, "whoami")


def test_stop_start_and_reboot_keep_address_host_key_and_customers_key(bench):
    spec = bench.spec()
    before = bench.running(spec)

    bench.driver.power(spec.rental, PowerVerb.STOP)
    stopped = bench.reach(spec.rental, MemberState.STOPPED)
    with pytest.raises(ConnectionRefusedError):
        logins.run(stopped.members[0], CUSTOMER, "whoami")
    bench.driver.power(spec.rental, PowerVerb.STOP)
    bench.driver.power(spec.rental, PowerVerb.START)
    bench.driver.power(spec.rental, PowerVerb.START)
    started = bench.reach(spec.rental, MemberState.RUNNING)
    bench.driver.power(spec.rental, PowerVerb.REBOOT)
    rebooted = bench.reach(spec.rental, MemberState.RUNNING)

    assert started == rebooted == before
    assert logins.run(rebooted.members[0], CUSTOMER, "whoami").out == "root\n"


def test_a_stopped_machine_starts_on_other_cards(bench):
    spec = bench.spec()
    bench.running(spec)
    bench.driver.power(spec.rental, PowerVerb.STOP)
    other = bench.spec(members=1)
    moved = replace(other, members=(MemberSpec(0, "host-0", spec.members[0].cards),))
    bench.running(moved)

    with pytest.raises(NoCapacity):
        bench.driver.power(spec.rental, PowerVerb.START)
    fresh = (MemberSpec(0, "host-0", ("spare-1", "spare-2")),)
    bench.driver.power(spec.rental, PowerVerb.START, members=fresh)

    assert bench.reach(spec.rental, MemberState.RUNNING).cards == ("spare-1", "spare-2")
    assert bench.driver.ensure(replace(spec, members=fresh)).spec_hash == spec.hash


def test_a_card_is_never_in_two_machines(bench):
    spec = bench.spec()
    bench.running(spec)
    thief = replace(bench.spec(), members=spec.members)

    with pytest.raises(NoCapacity):
        bench.driver.ensure(thief)

    assert bench.driver.observe(thief.rental) is None
    assert bench.driver.offers("any").cards_in_use["host-0"] == tuple(sorted(spec.members[0].cards))


def test_a_crash_of_the_engine_brings_every_machine_back_as_it_was(bench):
    kept, off = bench.spec(), bench.spec()
    running = bench.running(kept)
    bench.running(off)
    bench.driver.power(off.rental, PowerVerb.STOP)
    stopped = bench.driver.observe(off.rental)

    bench.crash()

    assert bench.driver.observe(kept.rental) == running
    assert bench.driver.observe(off.rental) == stopped
    assert logins.run(running.members[0], CUSTOMER, "whoami").out == "root\n"
    with pytest.raises(asyncssh.PermissionDenied):
        logins.run(running.members[0], STRANGER, "whoami")


def test_a_crash_while_booting_still_ends_in_one_running_machine(bench):
    spec = bench.spec()
    bench.faults(boot_seconds=1)
    first = bench.driver.ensure(spec)
    bench.crash()
    bench.faults(boot_seconds=0)

    assert bench.running(spec).endpoint == first.endpoint
    assert bench.names(spec.rental) == [spec.name(0)]


def test_destroy_takes_a_moment_says_gone_and_may_be_repeated(bench):
    spec = bench.spec()
    (member,) = bench.running(spec).members
    bench.faults(terminate_seconds=0.3)

    assert bench.driver.destroy(spec.rental) is Destroyed.NOT_YET
    assert bench.driver.observe(spec.rental).state is MemberState.TERMINATING
    with pytest.raises(Transient):
        bench.driver.ensure(spec)
    assert bench.driver.destroy(spec.rental) is Destroyed.NOT_YET
    bench.gone(spec.rental)

    assert bench.driver.destroy(spec.rental) is Destroyed.GONE
    assert bench.driver.destroy(uuid4()) is Destroyed.GONE
    assert bench.driver.observe(spec.rental) is None
    with pytest.raises(ConnectionRefusedError):
        logins.run(member, CUSTOMER, "whoami")


def test_a_destroy_whose_answer_is_lost_goes_on(bench):
    spec = bench.spec()
    bench.running(spec)
    bench.faults(drop_answers=1)

    with pytest.raises(UnknownOutcome):
        bench.driver.destroy(spec.rental)

    bench.gone(spec.rental)


def test_a_machine_deleted_by_hand_is_observed_as_none(bench):
    spec = bench.spec()
    bench.running(spec)
    bench.delete_by_hand(spec.name(0))

    assert bench.driver.observe(spec.rental) is None
    with pytest.raises(InvalidSpec):
        bench.driver.power(spec.rental, PowerVerb.REBOOT)
    with pytest.raises(InvalidSpec):
        bench.driver.set_keys(spec.rental, [])


def test_a_new_generation_is_a_new_machine_and_waits_for_the_old_ones_end(bench):
    spec = bench.spec()
    bench.running(spec)
    second = replace(spec, generation=2)

    with pytest.raises(Ambiguous):
        bench.driver.ensure(second)
    bench.driver.destroy(spec.rental)
    wait_for(lambda: bench.driver.observe(spec.rental) is None)
    running = bench.running(second)

    assert (running.generation, running.members[0].name) == (2, f"r-{spec.rental.hex[:12]}-g2-0")


def test_a_machine_of_another_specification_is_not_adopted(bench):
    spec = bench.spec()
    bench.running(spec)

    with pytest.raises(Ambiguous):
        bench.driver.ensure(replace(spec, vcpus=32))

    assert bench.names(spec.rental) == [spec.name(0)]


def test_the_hash_changes_with_what_was_bought_only(bench):
    spec = bench.spec()
    same = replace(spec, public_keys=(), members=(MemberSpec(0, "elsewhere", ("x", "y")),))

    assert spec.hash == same.hash
    for other in ({"generation": 2}, {"vcpus": 1}, {"disk_gb": 1}, {"rental": uuid4()}, {"installation": "x"}):
        assert replace(spec, **other).hash != spec.hash


def test_a_cluster_has_a_machine_a_member_and_a_missing_one_shows(bench):
    spec = bench.spec(members=3, cards=1, kind="cluster")
    running = bench.running(spec)
    assert [member.node for member in running.members] == ["host-0", "host-1", "host-2"]
    assert bench.driver.probe(
        spec.rental, public_keys=spec.public_keys, cards=running.cards, host_keys=[m.host_key for m in running.members]
    ).ok

    bench.delete_by_hand(spec.name(1))
    partial = bench.driver.observe(spec.rental)

    assert partial.state is MemberState.GONE
    assert [member.state for member in partial.members] == ["running", "gone", "running"]
    assert bench.running(spec).cards == running.cards


def test_list_owned_shows_ours_and_nobody_elses(bench):
    ours = [bench.spec(), bench.spec(members=2)]
    theirs = bench.spec(installation="somebody-else")
    for spec in [*ours, theirs]:
        bench.driver.ensure(spec)

    listed = {observed.rental: observed for observed in bench.driver.list_owned(INSTALLATION)}

    assert set(listed) == {spec.rental for spec in ours}
    assert len(listed[ours[1].rental].members) == 2


def test_refusals_are_typed(bench):
    bench.faults(bad_images=["cuda-12"])
    with pytest.raises(ImageError):
        bench.driver.ensure(bench.spec())
    bench.faults(bad_images=[], no_capacity=True)
    with pytest.raises(NoCapacity):
        bench.driver.ensure(bench.spec())
    assert bench.driver.offers("any").machines_free == 0
    bench.faults(no_capacity=False)
    with pytest.raises(InvalidSpec):
        bench.driver.ensure(bench.spec(public_keys=("nonsense",)))
    with pytest.raises(InvalidSpec):
        bench.driver.ensure(bench.spec(public_keys=('command="id" ' + public_line(CUSTOMER),)))
    with pytest.raises(Unsupported):
        bench.driver.resize(uuid4(), bench.spec())

    assert list(bench.driver.list_owned(INSTALLATION)) == []


def test_a_wrong_credential_is_an_auth_error(bench):
    spec = bench.spec()
    driver = bench.wrong_credential()
    try:
        for call in (lambda: driver.ensure(spec), lambda: driver.observe(spec.rental), lambda: driver.offers("any")):
            with pytest.raises(AuthError):
                call()
    finally:
        driver.close()

    assert bench.driver.observe(spec.rental) is None


def test_a_failed_boot_shows_its_reason_and_console(bench):
    spec = bench.spec()
    bench.faults(boot_failures=1)
    bench.driver.ensure(spec)

    failed = bench.reach(spec.rental, MemberState.FAILED)

    assert failed.reason == "the machine did not boot"
    assert "boot failed" in bench.driver.console(spec.rental)
    bench.gone(spec.rental)
    assert bench.driver.console(spec.rental) == ""


def test_a_slow_boot_is_seen_step_by_step(bench):
    spec = bench.spec()
    bench.faults(boot_seconds=0.8)
    bench.driver.ensure(spec)

    for state in (MemberState.CREATING, MemberState.BOOTING, MemberState.RUNNING):
        bench.reach(spec.rental, state)


def test_a_lost_host_is_said_and_fencing_cuts_its_machines_off(bench):
    spec = bench.spec()
    (member,) = bench.running(spec).members
    bench.faults(lost_hosts=["host-0"])

    with pytest.raises(NodeLost):
        bench.driver.observe(spec.rental)
    assert logins.run(member, CUSTOMER, "whoami").out == "root\n"  # the ghost that fencing is for
    bench.driver.fence("host-0")
    with pytest.raises(ConnectionRefusedError):
        logins.run(member, CUSTOMER, "whoami")

    bench.faults(lost_hosts=[])
    assert bench.driver.observe(spec.rental).state is MemberState.STOPPED


# --- the probe ---


def test_a_probe_logs_in_counts_and_leaves_only_the_customers_keys(bench):
    spec = bench.spec()
    running = bench.running(spec)

    health = bench.driver.probe(
        spec.rental, public_keys=spec.public_keys, cards=running.cards, host_keys=[running.host_key]
    )

    assert (health.ok, health.logged_in, health.host_key_matches, health.reason) == (True, True, True, None)
    assert health.cards_seen == spec.members[0].cards
    assert "演示机器" in health.banner
    assert bench.view(spec.name(0))["public_keys"] == list(spec.public_keys)


def test_a_probe_removes_the_key_of_one_that_died(bench):
    spec = bench.spec()
    running = bench.running(spec)
    bench.driver.set_keys(spec.rental, [*spec.public_keys, public_line(STRANGER)])

    assert bench.driver.probe(spec.rental, public_keys=spec.public_keys, cards=running.cards).ok

    assert bench.view(spec.name(0))["public_keys"] == list(spec.public_keys)


def test_a_probe_works_for_a_customer_without_keys(bench):
    spec = bench.spec(public_keys=())
    running = bench.running(spec)

    assert bench.driver.probe(spec.rental, public_keys=(), cards=running.cards).ok
    assert bench.view(spec.name(0))["public_keys"] == []


def test_a_probe_that_cannot_take_its_key_back_is_no_success(bench, monkeypatch):
    spec = bench.spec()
    running = bench.running(spec)
    set_keys, calls = bench.driver.set_keys, []

    def fail_the_second(rental, keys):
        calls.append(keys)
        if len(calls) == 2:
            raise UnknownOutcome
        set_keys(rental, keys)

    monkeypatch.setattr(bench.driver, "set_keys", fail_the_second)
    with pytest.raises(UnknownOutcome):
        bench.driver.probe(spec.rental, public_keys=spec.public_keys, cards=running.cards)


def test_a_probe_sees_a_missing_card(bench):
    spec = bench.spec(cards=4)
    bench.faults(missing_cards=1)
    bench.running(spec)

    health = bench.driver.probe(spec.rental, public_keys=spec.public_keys, cards=spec.members[0].cards)

    assert (health.ok, health.logged_in, health.reason) == (False, True, Fault.CARDS_DIFFER)
    assert health.cards_seen == spec.members[0].cards[:3]
    assert bench.view(spec.name(0))["public_keys"] == list(spec.public_keys)


def test_a_probe_refuses_a_changed_host_key(bench):
    spec = bench.spec()
    before = bench.running(spec)
    bench.replace_host_key(spec.name(0))
    bench.reach(spec.rental, MemberState.RUNNING)

    health = bench.driver.probe(
        spec.rental, public_keys=spec.public_keys, cards=before.cards, host_keys=[before.host_key]
    )

    assert (health.ok, health.logged_in, health.reason) == (False, False, Fault.HOST_KEY_CHANGED)


def test_a_probe_notices_a_machine_that_shows_another_key_than_the_engine_says(bench, monkeypatch):
    spec = bench.spec()
    running = bench.running(spec)
    lie = replace(running, members=(replace(running.members[0], host_key=public_line(STRANGER)),))
    monkeypatch.setattr(bench.driver, "observe", lambda rental: lie)

    health = bench.driver.probe(spec.rental, public_keys=spec.public_keys, cards=running.cards)

    assert (health.ok, health.logged_in, health.reason) == (False, False, Fault.HOST_KEY_CHANGED)


def test_a_probe_of_a_machine_that_does_not_run_sets_no_key(bench):
    spec = bench.spec()
    bench.running(spec)
    bench.driver.power(spec.rental, PowerVerb.STOP)

    for rental in (spec.rental, uuid4()):
        health = bench.driver.probe(rental, public_keys=(), cards=())
        assert (health.ok, health.reason) == (False, Fault.NOT_RUNNING)

    assert bench.view(spec.name(0))["public_keys"] == list(spec.public_keys)


# --- what the cards do ----------------------------------------------------------------------------------------------


def test_utilisation_names_the_rentals_own_cards_and_is_zero_while_nobody_works(bench):
    spec, other = bench.spec(cards=2), bench.spec(cards=1)
    bench.running(spec), bench.running(other)

    readings = bench.driver.utilisation(spec.rental)

    assert [(one.serial, one.index, one.busy) for one in readings] == [
        (spec.members[0].cards[0], 0, Decimal(0)),
        (spec.members[0].cards[1], 1, Decimal(0)),
    ]
    assert [(one.memory_used, one.memory_total, one.temperature, one.power) for one in readings] == [
        (0, 24576, None, None)
    ] * 2


def test_utilisation_rises_with_what_runs_inside(bench):
    (member,) = bench.running(spec := bench.spec(cards=2)).members

    async def work(connection):
        async with connection.create_process(), connection.create_process():
            return await asyncio.to_thread(bench.driver.utilisation, spec.rental)

    during = logins.attempt(member, CUSTOMER, work)

    assert [(one.busy, one.memory_used) for one in during] == [(Decimal(50), 4096)] * 2
    wait_for(lambda: [one.busy for one in bench.driver.utilisation(spec.rental)] == [Decimal(0)] * 2)


def test_a_clusters_utilisation_covers_every_member(bench):
    spec = bench.spec(cards=2, members=2)
    bench.running(spec)

    assert [one.serial for one in bench.driver.utilisation(spec.rental)] == [
        card for member in spec.members for card in member.cards
    ]


def test_an_ascend_machine_is_read_in_its_own_exporters_words(bench):
    accelerator = Accelerator("Huawei", "Ascend 910B3", "huawei.com/Ascend910", 1, 64)
    spec = bench.spec(accelerator=accelerator, cards=1)
    bench.running(spec)

    (reading,) = bench.driver.utilisation(spec.rental)

    assert (reading.busy, reading.memory_used, reading.memory_total) == (Decimal(0), 0, 65536)
    assert "npu_chip_info_utilization{" in bench.metrics(spec.name(0))


def test_silence_of_the_exporter_is_never_zero_percent(bench):
    spec = bench.spec()
    bench.running(spec)
    bench.faults(exporter_down=True)
    with pytest.raises(Transient):
        bench.driver.utilisation(spec.rental)
    bench.heal()
    bench.faults(lost_hosts=["host-0"])
    with pytest.raises(NodeLost):
        bench.driver.utilisation(spec.rental)
    bench.heal()
    bench.driver.power(spec.rental, PowerVerb.STOP)
    with pytest.raises(InvalidSpec):
        bench.driver.utilisation(spec.rental)
    assert bench.driver.utilisation(uuid4()) == ()


def test_the_demo_exporter_says_that_it_is_one(bench):
    spec = bench.spec(cards=1)
    bench.running(spec)

    lines = [line for line in bench.metrics(spec.name(0)).splitlines() if not line.startswith("#")]

    assert len(lines) == 3
    assert all('demo="true"' in line for line in lines)
