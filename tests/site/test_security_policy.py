"""No inline script or style on the site; the admin has a policy of its own."""

import re
from pathlib import Path

import pytest
from django.conf import settings

TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))


def policy(answer) -> dict[str, str]:
    directives = answer.headers["Content-Security-Policy"].split(";")
    return dict(part.strip().partition(" ")[::2] for part in directives)


@pytest.mark.django_db
def test_the_site_allows_its_own_files_only(client):
    assert policy(client.get("/accounts/login/")) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "manifest-src": "'self'",
        "form-action": "'self' https://invoice.stripe.com https://checkout.stripe.com",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.django_db
def test_the_admin_gets_what_unfold_needs_and_no_more(client):
    admin, site = policy(client.get("/admin/login/")), policy(client.get("/accounts/login/"))
    assert {name for name in admin if admin[name] != site[name]} == {"script-src", "style-src"}
    assert "'unsafe-inline'" in admin["style-src"]
    assert "http" not in admin["script-src"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(settings.BASE_DIR)))
def test_a_template_has_nothing_inline(path):
    if "emails" in path.parts:
        return  # mail readers know no style sheets
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", text) == []
    assert [tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag and "json" not in tag] == []
    assert re.findall(r'(?:src|href)="(?:https?:)?//(?!beian\.(?:miit|mps)\.gov\.cn/)', text) == []
