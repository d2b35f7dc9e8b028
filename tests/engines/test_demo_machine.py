"""What a demo machine is to the person who logs in, and what it never is."""

import asyncio
import hashlib
import json
import socket
import struct
from pathlib import Path

import asyncssh
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from marketplace.local.demo_engine import ssh
from rentals.drivers.base import Accelerator, MemberState, PowerVerb
from tests.engines import logins
from tests.engines.bench import CUSTOMER, public_line

NOTICE_ZH, NOTICE_EN = "演示机器：未连接任何 GPU", "Demo machine: no GPU or NPU is attached"


def test_the_system_ssh_client_logs_in_and_is_told_the_truth(bench, key_file):
    spec = bench.spec(cards=2)
    (member,) = bench.running(spec).members

    cards = logins.openssh(member, key_file, "cards")
    assert cards.returncode == 0
    for words in (NOTICE_ZH, NOTICE_EN, "NVIDIA RTX 4090", *spec.members[0].cards, "24 GB"):
        assert words in cards.stdout
    assert NOTICE_EN in cards.stderr  # the banner before login

    smi = logins.openssh(member, key_file, "nvidia-smi", "-L")
    assert f"GPU 1: NVIDIA RTX 4090 (UUID: {spec.members[0].cards[1]}) [演示 demo]" in smi.stdout
    assert logins.openssh(member, key_file, "exit-wrong").returncode == 127


def test_a_terminal_shows_the_notice_and_answers_line_by_line(bench, key_file):
    spec = bench.spec(cards=1, hostname="my-box")
    (member,) = bench.running(spec).members

    session = logins.openssh(member, key_file, typed="hostname\nwhoami\nls\nexit\n", terminal=True)

    assert session.returncode == 127  # of the last command, as in a shell
    for words in (NOTICE_ZH, NOTICE_EN, spec.members[0].cards[0], "root@my-box:~# ", "root\n", "ls: "):
        assert words in session.stdout
    assert "PyTorch 2.8; 16 vCPU, 64 GB RAM, 200 GB disk" in session.stdout


def test_a_terminal_survives_interrupt_and_resize_and_ends_at_end_of_input(bench):
    (member,) = bench.running(bench.spec()).members

    async def visit(connection):
        process = await connection.create_process(term_type="xterm", term_size=(80, 24))
        process.stdin.write("half a line\x03")
        process.change_terminal_size(120, 40)
        process.stdin.write("whoami\n\x04")
        answer = await process.wait()
        return answer.stdout, answer.exit_status

    out, code = logins.attempt(member, CUSTOMER, visit)

    assert out.count("root\r\n") == 1
    assert "half" not in out.replace("half a line", "", 1)  # typed, shown, never answered
    assert code == 0


def test_without_a_terminal_lines_are_answered_without_prompt(bench, key_file):
    (member,) = bench.running(bench.spec()).members

    assert logins.openssh(member, key_file, typed="whoami\nwhoami\n").stdout == "root\nroot\n"


def test_an_ascend_machine_speaks_its_vendors_tool(bench):
    accelerator = Accelerator("Huawei", "Ascend 910B3", "huawei.com/Ascend910", 2, 64)
    (member,) = bench.running(bench.spec(accelerator=accelerator)).members

    assert "NPU 0  Ascend 910B3" in logins.run(member, CUSTOMER, "npu-smi info").out
    assert logins.run(member, CUSTOMER, "nvidia-smi -L").code == 127


def test_no_command_of_the_computer_runs(bench, tmp_path):
    (member,) = bench.running(bench.spec()).members
    marker = tmp_path / "ran"
    children = Path(f"/proc/{bench.engine.pid}/task/{bench.engine.pid}/children")
    for attempt in (
        f"touch {marker}",
        f"/bin/touch {marker}",
        f"cards; touch {marker}",
        f"cards && touch {marker}",
        f"cards | touch {marker}",
        f"cards $(touch {marker})",
        f"cards `touch {marker}`",
        f"cards\ntouch {marker}",
        f"hostname > {marker}",
        f'python3 -c \'open("{marker}", "w")\'',
        "bash",
        "cat /etc/passwd",
        "cat '",
        "\x00\x1b[2J",
        "x" * 5000,
    ):
        said = logins.run(member, CUSTOMER, attempt)
        assert "root:" not in said.out
        assert children.read_text() == ""
    assert not marker.exists()


def test_no_forwarding_no_files_no_agent(bench):
    (member,) = bench.running(bench.spec()).members

    async def visit(connection):
        refused = []
        for opening in (
            lambda: connection.open_connection("127.0.0.1", member.endpoint.port),
            connection.start_sftp_client,
            lambda: connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", 9),
        ):
            try:
                await opening()
            except (asyncssh.ChannelOpenError, asyncssh.ChannelListenError) as error:
                refused.append(type(error))
        return refused

    assert logins.attempt(member, CUSTOMER, visit) == [
        asyncssh.ChannelOpenError,
        asyncssh.ChannelOpenError,
        asyncssh.ChannelListenError,
    ]


@pytest.mark.parametrize("algorithm", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521"])
def test_every_usual_key_type_logs_in(bench, algorithm):
    key = asyncssh.generate_private_key(algorithm)
    (member,) = bench.running(bench.spec(public_keys=(public_line(key),))).members

    assert logins.run(member, key, "whoami").out == "root\n"


class SecurityKey(asyncssh.SSHKeyPair):
    """A hardware key as OpenSSH describes it (PROTOCOL.u2f), with its secret in memory and its button pressed."""

    def __init__(self) -> None:
        self._secret = Ed25519PrivateKey.generate()
        point = self._secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        name = b"sk-ssh-ed25519@openssh.com"
        super().__init__(name, name, [name], [name], _string(name) + _string(point) + _string(b"ssh:"), b"sk")

    def sign(self, data: bytes) -> bytes:
        tail = struct.pack(">BI", 1, 7)
        signed = hashlib.sha256(b"ssh:").digest() + tail + hashlib.sha256(data).digest()
        return _string(self.sig_algorithm) + _string(self._secret.sign(signed)) + tail

    @property
    def line(self) -> str:
        return asyncssh.public_key.decode_ssh_public_key(self.public_data).export_public_key().decode().strip()


def _string(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def test_a_security_key_logs_in(bench):
    key = SecurityKey()
    (member,) = bench.running(bench.spec(public_keys=(key.line,))).members

    assert logins.run(member, key, "whoami").out == "root\n"


def test_a_crowd_at_one_machine_is_bounded_and_others_still_get_in(bench):
    crowded, quiet = bench.spec(), bench.spec()
    (door,) = bench.running(crowded).members
    (other,) = bench.running(quiet).members
    idle = [socket.create_connection((door.endpoint.host, door.endpoint.port), 5) for _ in range(20)]
    try:
        for sock in idle:
            sock.settimeout(10)
        answered = [sock for sock in idle if _greeting(sock)]
        assert len(answered) == ssh.CONNECTIONS_PER_MACHINE
        assert logins.run(other, CUSTOMER, "whoami").out == "root\n"
    finally:
        for sock in idle:
            sock.close()


def _greeting(sock: socket.socket) -> bool:
    """True while the server goes on to key exchange after its version line; False when it hung up."""
    sock.sendall(b"SSH-2.0-test\r\n")
    received = b""
    try:
        while len(received) < 60:
            part = sock.recv(4096)
            if not part:
                return False
            received += part
    except ConnectionError:
        return False
    return True


def test_stop_ends_open_sessions(bench):
    spec = bench.spec()
    (member,) = bench.running(spec).members

    async def visit(connection):
        process = await connection.create_process(term_type="xterm")
        await process.stdout.readuntil(":~# ")
        await asyncio.to_thread(bench.driver.power, spec.rental, PowerVerb.STOP)
        await asyncio.wait_for(connection.wait_closed(), 5)
        return True

    assert logins.attempt(member, CUSTOMER, visit)
    assert bench.driver.observe(spec.rental).state is MemberState.STOPPED


def test_a_stopped_machine_keeps_its_port_from_everybody(bench):
    spec = bench.spec()
    endpoint = bench.running(spec).endpoint
    bench.driver.power(spec.rental, PowerVerb.STOP)

    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind((endpoint.host, endpoint.port))


def test_a_machine_whose_port_was_taken_waits_for_it_and_never_moves(bench):
    spec = bench.spec()
    endpoint = bench.running(spec).endpoint
    bench.engine.kill()
    with socket.create_server((endpoint.host, endpoint.port)):
        bench.engine.start()
        waiting = bench.driver.observe(spec.rental)
        assert (waiting.state, waiting.endpoint) == (MemberState.BOOTING, endpoint)
        assert waiting.reason == f"port {endpoint.port} is in use by another program"

    back = bench.reach(spec.rental, MemberState.RUNNING)

    assert (back.endpoint, back.reason) == (endpoint, "")
    assert json.loads(logins.run(back.members[0], CUSTOMER, "cards --json").out)["demo"] is True


def test_switching_on_and_off_at_any_moment_ends_where_it_was_told(bench):
    bench.faults(boot_seconds=0)
    spec = bench.spec()
    endpoint = bench.running(spec).endpoint
    for _ in range(40):
        bench.driver.power(spec.rental, PowerVerb.STOP)
        bench.driver.power(spec.rental, PowerVerb.START)
    assert bench.reach(spec.rental, MemberState.RUNNING).endpoint == endpoint
    assert bench.driver.probe(spec.rental, public_keys=spec.public_keys, cards=spec.members[0].cards).ok

    bench.driver.power(spec.rental, PowerVerb.STOP)
    assert bench.driver.observe(spec.rental).state is MemberState.STOPPED
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((endpoint.host, endpoint.port), 5)
    assert (bench.engine.state_dir / "engine.log").read_text().count("Traceback") == 0
