"""What the contract needs from each engine beside its driver: a way to break it and to look behind it."""

from typing import Any
from uuid import UUID, uuid4

import asyncssh
import httpx

from marketplace.local.demo_engine import DemoEngine
from rentals import drivers
from rentals.drivers.base import (
    Accelerator,
    Connection,
    Driver,
    ImageSpec,
    MemberSpec,
    MemberState,
    Observed,
    Secret,
    Spec,
)
from tests.support.waiting import wait_for

INSTALLATION = "tests"


class Bench:
    """One engine under test: what a driver cannot do itself (break it, look behind it) is done here."""

    kind: str
    driver: Driver

    def spec(self, *, cards: int = 2, members: int = 1, rental: UUID | None = None, **facts: Any) -> Spec:
        rental = rental or uuid4()
        facts.setdefault("public_keys", (public_line(CUSTOMER),))
        return Spec(
            **{
                "installation": INSTALLATION,
                "rental": rental,
                "generation": 1,
                "kind": "gpu",
                "members": tuple(
                    MemberSpec(n, f"host-{n}", tuple(f"{rental.hex[:8]}-{n}-{card}" for card in range(cards)))
                    for n in range(members)
                ),
                "accelerator": Accelerator("NVIDIA", "NVIDIA RTX 4090", "nvidia.com/gpu", cards, 24),
                "vcpus": 16,
                "memory_gb": 64,
                "disk_gb": 200,
                "image": ImageSpec("cuda-12", "sha256:" + "0" * 64, "PyTorch 2.8"),
                **facts,
            }
        )

    def running(self, spec: Spec) -> Observed:
        self.driver.ensure(spec)
        return self.reach(spec.rental, MemberState.RUNNING)

    def reach(self, rental: UUID, state: MemberState) -> Observed:
        def there() -> Observed | None:
            observed = self.driver.observe(rental)
            return observed if observed and observed.state is state else None

        return wait_for(there)

    def gone(self, rental: UUID) -> None:
        wait_for(lambda: self.driver.destroy(rental) == "gone")

    def faults(self, **changes: Any) -> None:
        raise NotImplementedError

    def delete_by_hand(self, name: str) -> None:
        raise NotImplementedError

    def crash(self) -> None:
        raise NotImplementedError

    def wrong_credential(self) -> Driver:
        raise NotImplementedError


class DemoBench(Bench):
    kind = "demo"

    def __init__(self, engine: DemoEngine) -> None:
        self.engine = engine
        self.driver = drivers.connect("demo", Connection(engine.url, Secret(engine.token)))
        self.admin = httpx.Client(
            base_url=engine.url, headers={"Authorization": f"Bearer {engine.token}"}, trust_env=False, timeout=10
        )

    def close(self) -> None:
        self.driver.close()
        self.admin.close()

    def faults(self, **changes: Any) -> None:
        self.admin.put("/admin/faults", json=changes).raise_for_status()

    def heal(self) -> None:
        self.admin.delete("/admin/faults").raise_for_status()

    def delete_by_hand(self, name: str) -> None:
        self.admin.delete(f"/admin/machines/{name}").raise_for_status()

    def replace_host_key(self, name: str) -> None:
        self.admin.post(f"/admin/machines/{name}/host-key").raise_for_status()

    def view(self, name: str) -> dict[str, Any]:
        return self.admin.get(f"/v1/machines/{name}").raise_for_status().json()

    def metrics(self, name: str) -> str:
        return self.admin.get(f"/v1/machines/{name}/metrics").raise_for_status().text

    def names(self, rental: UUID) -> list[str]:
        answer = self.admin.get("/v1/machines", params={"rental": str(rental)}).raise_for_status()
        return [machine["name"] for machine in answer.json()["machines"]]

    def crash(self) -> None:
        self.engine.restart()

    def wrong_credential(self) -> Driver:
        return drivers.connect("demo", Connection(self.engine.url, Secret("wrong")))


CUSTOMER = asyncssh.generate_private_key("ssh-ed25519", comment="customer")
STRANGER = asyncssh.generate_private_key("ssh-ed25519", comment="stranger")


def public_line(key: asyncssh.SSHKey) -> str:
    return key.export_public_key("openssh").decode().strip()
