from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


def test_compose_has_every_part_and_each_that_stays_up_is_watched():
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "redis", "migrate", "web", "worker", "beat"}
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"migrate"}
    assert services["migrate"]["restart"] == "no"
    for name in ("web", "worker", "beat"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_compose_takes_its_password_from_outside_and_insists_on_one():
    for service in ("postgres", "web"):
        values = [value for value in COMPOSE["services"][service]["environment"].values() if "PASSWORD" in value]
        assert len(values) == 1
        assert "${POSTGRES_PASSWORD:?" in values[0]


def test_the_image_runs_as_an_account_without_rights_and_holds_no_local_state():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER app" in lines
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".env", ".local", ".git"} <= set(ignored)
