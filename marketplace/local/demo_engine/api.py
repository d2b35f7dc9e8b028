"""The engine's HTTP API: which path means which verb, and what a request must hold.

    GET    /healthz                         POST   /v1/machines/<name>/power  {"verb": "stop", "cards": […]?}
    GET    /v1/capacity                     PUT    /v1/machines/<name>/keys   {"public_keys": […]}
    GET    /v1/machines?rental=…&after=…    GET    /v1/machines/<name>/console?tail=50
    POST   /v1/machines                     POST   /v1/hosts/<host>/fence
    GET    /v1/machines/<name>              GET, PUT, DELETE /admin/faults
    GET    /v1/machines/<name>/metrics      DELETE /admin/machines/<name> (by hand)
    DELETE /v1/machines/<name>              POST   …/<name>/host-key, …/<name>/lose-cards  {"count": 1}

Metrics are the vendor's exporter's text, of the machine's own cards; everything else is JSON.
Every query parameter of the list but `after` and `limit` is a label to match.
"""

import asyncio
import traceback
from typing import Any

from marketplace.local.demo_engine import ssh
from marketplace.local.demo_engine.engine import NAME, NO_FAULTS, Engine, Refusal
from marketplace.local.demo_engine.http import Answer, Request

PAGE = 200


class Api:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def __call__(self, request: Request) -> Answer:
        if request.path == ("healthz",):
            return Answer(200, {"ok": True, "machines": len(self.engine.machines)})
        if request.path[0] == "admin":
            return self._admin(request)
        if delay := self.engine.faults["delay_seconds"]:
            await asyncio.sleep(float(delay))
        if self.engine.spend_fault("errors"):
            raise Refusal(500, "internal", "the engine failed on purpose")
        try:
            answer = self._dispatch(request)
        except Refusal:
            raise
        except Exception:
            traceback.print_exc()
            raise Refusal(500, "internal", "the engine failed") from None
        if request.method != "GET" and self.engine.spend_fault("drop_answers"):
            return Answer(answer.status, answer.body, sent=False)
        return answer

    def _dispatch(self, request: Request) -> Answer:
        match (request.method, *request.path):
            case ("GET", "v1", "capacity"):
                return Answer(200, self._capacity())
            case ("GET", "v1", "machines"):
                return Answer(200, self._list(request.query))
            case ("POST", "v1", "machines"):
                return Answer(201, self.engine.view(self.engine.create(_wanted(request.body))))
            case ("GET", "v1", "machines", name):
                return Answer(200, self.engine.view(self.engine.machine(name)))
            case ("DELETE", "v1", "machines", name):
                return Answer(202, self.engine.view(self.engine.destroy(name)))
            case ("POST", "v1", "machines", name, "power"):
                verb, cards = _power(request.body)
                return Answer(200, self.engine.view(self.engine.power(name, verb, cards)))
            case ("PUT", "v1", "machines", name, "keys"):
                keys = _keys(_mapping(request.body).get("public_keys"))
                return Answer(200, self.engine.view(self.engine.set_keys(name, keys)))
            case ("GET", "v1", "machines", name, "console"):
                self.engine.machine(name)
                tail = _number(request.query.get("tail", "50"), 1, 200)
                return Answer(200, {"lines": self.engine.store.console(name, tail)})
            case ("GET", "v1", "machines", name, "metrics"):
                return Answer(200, self.engine.metrics(name))
            case ("POST", "v1", "hosts", host, "fence"):
                return Answer(200, {"stopped": self.engine.fence(host)})
        raise Refusal(404, "no_such_path", "no such path")

    def _admin(self, request: Request) -> Answer:
        match (request.method, *request.path):
            case ("GET", "admin", "faults"):
                return Answer(200, self.engine.faults)
            case ("PUT", "admin", "faults"):
                return Answer(200, self.engine.set_faults(_mapping(request.body)))
            case ("DELETE", "admin", "faults"):
                return Answer(200, self.engine.set_faults(NO_FAULTS))
            case ("DELETE", "admin", "machines", name):
                self.engine.forget(name)
                return Answer(200, {})
            case ("POST", "admin", "machines", name, "host-key"):
                return Answer(200, self.engine.view(self.engine.replace_host_key(name)))
            case ("POST", "admin", "machines", name, "lose-cards"):
                count = _number(_mapping(request.body).get("count"), 0, 64)
                return Answer(200, self.engine.view(self.engine.lose_cards(name, count)))
        raise Refusal(404, "no_such_path", "no such path")

    def _capacity(self) -> dict[str, Any]:
        hosts: dict[str, list[str]] = {}
        for serial, name in self.engine.cards_in_use().items():
            hosts.setdefault(self.engine.machines[name].host, []).append(serial)
        limit, count = self.engine.timing.machine_limit, len(self.engine.machines)
        free = 0 if self.engine.faults["no_capacity"] else max(0, limit - count)
        return {
            "machines": count,
            "free": free,
            "hosts": [{"host": h, "cards_in_use": sorted(c)} for h, c in hosts.items()],
        }

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        after = query.pop("after", "")
        limit = _number(query.pop("limit", str(PAGE)), 1, PAGE)
        found = [machine for machine in self.engine.matching(query) if machine.name > after]
        page = found[:limit]
        return {
            "machines": [self.engine.view(machine) for machine in page],
            "next": page[-1].name if len(found) > limit else None,
        }


# --- shapes ----------------------------------------------------------------------------------------------------------


def _invalid(message: str) -> Refusal:
    return Refusal(422, "invalid", message)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid("an object is expected")
    return value


def _text(value: Any, name: str, longest: int = 200) -> str:
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise _invalid(f"{name} must be a text of at most {longest} characters")
    return value


def _number(value: Any, low: int, high: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = low - 1
    if isinstance(value, (bool, float)) or not low <= number <= high:
        raise _invalid(f"a whole number from {low} to {high} is expected")
    return number


def _keys(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > 100 or not all(isinstance(key, str) for key in value):
        raise _invalid("public_keys must be a list of at most 100 lines")
    try:
        ssh.parse_keys(value)
    except ValueError as error:
        raise _invalid(str(error)) from None
    return value


def _cards(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > 64:
        raise _invalid("cards must be a list")
    cards = []
    for card in map(_mapping, value):
        memory = card.get("memory_gb")
        cards.append(
            {
                "serial": _text(card.get("serial"), "serial"),
                "model": _text(card.get("model"), "model"),
                "memory_gb": None if memory is None else _number(memory, 1, 100_000),
            }
        )
    if len({card["serial"] for card in cards}) != len(cards):
        raise _invalid("a card is named twice")
    return cards


def _power(body: Any) -> tuple[str, list[dict[str, Any]] | None]:
    wanted = _mapping(body)
    if wanted.get("verb") not in {"start", "stop", "reboot"}:
        raise _invalid("verb must be start, stop or reboot")
    cards = wanted.get("cards")
    return wanted["verb"], None if cards is None else _cards(cards)


def _wanted(body: Any) -> dict[str, Any]:
    wanted = _mapping(body)
    name, hostname = _text(wanted.get("name"), "name"), _text(wanted.get("hostname"), "hostname")
    if not NAME.fullmatch(name) or not NAME.fullmatch(hostname):
        raise _invalid("name and hostname are small letters, digits and hyphens")
    image = {key: _text(value, key) for key, value in _mapping(wanted.get("image")).items()}
    if not image.get("slug"):
        raise _invalid("image needs a slug")
    return {
        "name": name,
        "hostname": hostname,
        "host": _text(wanted.get("host"), "host"),
        "vendor": _text(wanted.get("vendor"), "vendor"),
        "cards": _cards(wanted.get("cards")),
        "image": image,
        "vcpus": _number(wanted.get("vcpus"), 1, 4096),
        "memory_gb": _number(wanted.get("memory_gb"), 1, 100_000),
        "disk_gb": _number(wanted.get("disk_gb"), 0, 10_000_000),
        "public_keys": _keys(wanted.get("public_keys")),
        "labels": {_text(k, "label"): _text(v, "label") for k, v in _mapping(wanted.get("labels")).items()},
    }
