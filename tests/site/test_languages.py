"""Every main page speaks one language: no English sentence in a Chinese page, no Chinese in an English one.

Names of things (models, people, organizations, codes, units) are the same in both and are taken away first.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import django
import pytest
from babel.messages.pofile import read_po
from django.contrib import admin
from django.contrib.auth.models import Group
from django.core import mail
from django.test import Client
from django.urls import reverse

from accounts.models import Organization
from catalog import loading
from catalog.models import GpuModel, Region
from catalog.views.guide import EXAMPLES
from marketplace.lib import clock
from marketplace.local import translations
from orders import actions as orders
from rentals.models import Rental
from tests import factories
from tests.desk import world
from tests.trust import builders as trust
from trust import loading as trust_content

pytestmark = pytest.mark.django_db

LANGUAGES = {"中文", "English", "简体中文"}
VISIBLE = {"alt", "aria-description", "aria-label", "placeholder", "title"}
SILENT = {"code", "kbd", "pre", "script", "style", "template"}
# The same in both languages: units, brands, product names, file formats, what only staff reads as a code.
SAME = {
    "Asia", "Atom", "BF", "CANN", "CN", "CNY", "CPU", "CSV", "CUDA", "Command", "Control", "Cookie", "Ctrl", "DSA",
    "ECDSA", "FOCUS", "GB", "GPU", "Gb", "GeForce", "HBM", "HCCS", "ICP", "ID", "IDC", "INT", "IP", "Mac", "NPU",
    "NVIDIA", "NVLink", "NVMe", "PCIe", "PDF", "QuickBooks", "RDMA", "RSA", "RTX", "RoCE", "SLA", "SSH", "SWIFT",
    "Shanghai", "Stripe", "TB", "TFLOPS", "TOPS", "URL", "US", "USD", "UTC", "Ubuntu", "XLSX", "Xero", "consumer",
    "csv", "cuda", "en", "ms", "pub", "root", "sk", "ssh", "vCPU",
}  # fmt: skip
CODE = re.compile(
    r"\S+@\S+ | \S*\*{3,}\S* | AAAA\S+ | SHA256:\S+ | \S*[/_]\S* | \b\w+(?:[-.:]\w+)+\b | \b[\w.]*\d[\w.]*\b",
    re.VERBOSE,
)
WORD = re.compile(r"[A-Za-z]{2,}")
CHINESE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+")


class Reader(HTMLParser):
    """The pieces of text that a page shows or speaks, without those marked as being in another language."""

    def __init__(self, language: str):
        super().__init__()
        self.language, self.pieces, self.skipped = language, [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        foreign = tag != "html" and values.get("lang", self.language) != self.language
        drawn = "material-symbols" in (values.get("class") or "")
        if self.skipped or tag in SILENT or foreign or drawn:
            if tag not in {"br", "hr", "img", "input", "link", "meta", "source", "wbr"}:
                self.skipped.append(tag)
            return
        self.pieces += [value for name, value in attributes if name in VISIBLE and value]
        if tag == "input" and values.get("type") in {"button", "submit"}:
            self.pieces.append(values.get("value") or "")

    def handle_endtag(self, tag):
        if self.skipped and self.skipped[-1] == tag:
            self.skipped.pop()

    def handle_data(self, data):
        if not self.skipped and data.strip():
            self.pieces.append(" ".join(data.split()))


def read(html: str, language: str) -> list[str]:
    reader = Reader(language)
    reader.feed(html)
    return reader.pieces


def english_in(pieces, names=()):
    """Pieces with words that are neither names nor codes."""
    found = []
    for piece in pieces:
        rest = piece
        for name in sorted(names, key=len, reverse=True):
            rest = rest.replace(name, " ")
        words = [word for word in WORD.findall(CODE.sub(" ", rest)) if word not in SAME]
        if words:
            found.append(piece)
    return found


def chinese_in(pieces, names=()):
    found = []
    for piece in pieces:
        rest = piece
        for name in sorted(names, key=len, reverse=True):
            rest = rest.replace(name, " ")
        if CHINESE.search(rest):
            found.append(piece)
    return found


def leaks(html, language, names):
    pieces = read(html, language)
    assert pieces
    return (english_in if language == "zh-hans" else chinese_in)(pieces, names)


@pytest.fixture(params=["zh-hans", "en"])
def language(request):
    return request.param


@pytest.fixture
def visitor(language):
    client = Client()
    client.cookies["django_language"] = language
    return client


def all_leaks(client, language, addresses, names=()):
    found = {}
    for address in addresses:
        answer = client.get(address, follow=True)
        assert answer.status_code in {200, 403, 404}, address
        assert f'lang="{language}"' in answer.text, address
        if leaked := leaks(answer.text, language, {*names, *LANGUAGES}):
            found[address] = leaked
    return found


@pytest.fixture
def organization():
    return factories.organization(name="物主")


@pytest.fixture
def quote(organization):
    made = world.quote(organization)
    return orders.send_quote(quote_id=made.pk, actor=factories.user(), at=clock.now())


@pytest.fixture
def console(visitor, organization):
    visitor.force_login(organization.memberships.get().user, backend="django.contrib.auth.backends.ModelBackend")
    return visitor


def names(*more):
    """What people and staff named: taken away before looking."""
    rows = [
        *Region.objects.values_list("name_zh", flat=True), *Region.objects.values_list("name_en", flat=True),
        *GpuModel.objects.values_list("name", flat=True), *GpuModel.objects.values_list("family", flat=True),
        *Organization.objects.values_list("name", flat=True),
    ]  # fmt: skip
    return {name for name in (*rows, *more) if name}


def test_public_pages(language, visitor, quote):
    trust_content.load(at=clock.now())
    trust.incident(start="2026-11-01 08:00", end="2026-11-01 09:00", title_zh="断电", title_en="Power cut")
    trust.maintenance(start="2099-01-01 00:00", end="2099-01-01 01:00", title_zh="升级", title_en="Upgrade")
    offer = factories.offer(hosts=2)
    paths = [
        *(reverse(name) for name in ("home", "catalog:list", "account_login", "account_signup", "trust:status",
          "trust:about", "trust:sla", "trust:security",
          "account_reset_password", "account_reset_password_done", "account_email_verification_sent")),
        reverse("catalog:offer", args=[offer.slug]),
        "/gpus/?q=12345",
        "/nothing/",
        reverse("orders:quote", args=[quote.token]),
    ]  # fmt: skip
    assert all_leaks(visitor, language, paths, names("谢谢")) == {}


# What people who train models say in both languages, and whose figures the guide cites.
ADVICE = (
    "AIGC", "AI 企业", "AdamW", "DataCrunch", "InfiniBand", "KV", "LLaMA-Factory README", "Lockwood", "LoRA", "MFU",
    "ML Engineering, inference", "ML Engineering, network", "ML Engineering, training", "ML Engineering", "PUE",
    "QLoRA", "kWh", "kW", "max(", "token",
)  # fmt: skip


def test_advice_pages(language, visitor):
    loading.load(at=clock.now())
    models = GpuModel.objects.values_list("name", flat=True)
    paths = [
        reverse("catalog:guide"),
        *(f"{reverse('catalog:guide')}?{urlencode(state)}" for _title, _text, state in EXAMPLES),
        f"{reverse('catalog:guide')}?purpose=full&params=7&tokens=5000&stage=large&scenario=crossborder",
        f"{reverse('catalog:guide')}?purpose=inference&params=300&precision=fp4&concurrency=2000&stage=midsize",
        f"{reverse('catalog:guide')}?purpose=lora&params=x&deadline=-1",
        reverse("catalog:rent_or_buy"),
        f"{reverse('catalog:rent_or_buy')}?server=x&hour=11",
    ]
    assert all_leaks(visitor, language, paths, {*models, *ADVICE}) == {}


def test_console_pages(language, console, organization, quote):
    offer = factories.offer(hosts=2)
    hourly = factories.order(organization, offer)
    monthly = world.waiting_order(organization)
    key = organization.ssh_keys.first()
    machines = [
        world.rental(organization, status=status) for status in Rental.Status if status not in {"terminated", "failed"}
    ]
    bill = world.invoice(organization)
    paths = [
        *(reverse(name) for name in ("orders:list", "rentals:overview", "rentals:list", "rentals:activity",
          "billing:overview", "billing:invoices", "accounts:keys", "accounts:organization",
          "accounts:notices", "accounts:notice_preferences",
          "account_email", "account_change_password", "mfa_index",
          "account_logout")),
        *(reverse("orders:detail", args=[order.key]) for order in (hourly, monthly)),
        reverse("orders:cancel", args=[monthly.key]),
        *(f"{reverse('orders:new', args=[offer.slug])}?term={term}&periods=2" for term in ("hour", "month", "year")),
        reverse("orders:quote", args=[quote.token]),
        *(reverse(f"rentals:{name}", args=[machine.key]) for machine in machines
          for name in ("detail", "stop", "start", "terminate")),
        reverse("billing:invoice", args=[bill.key]),
        reverse("accounts:remove_key", args=[key.key]),
    ]  # fmt: skip
    given = {key.name for key in organization.ssh_keys.all()} | {machine.name for machine in machines}
    assert all_leaks(console, language, paths, names("谢谢", "Default project", "默认项目", *given)) == {}


def test_the_empty_console(language, console):
    paths = [reverse(name) for name in ("orders:list", "rentals:overview", "rentals:list", "rentals:activity",
             "billing:overview", "billing:invoices", "accounts:keys")]  # fmt: skip
    assert all_leaks(console, language, paths, names()) == {}


def test_what_forms_say_when_they_refuse(language, visitor):
    found = {}
    for name, fields in {
        "account_login": {"login": "nobody@example.com", "password": "wrong"},
        "account_signup": {"email": "not an address", "password1": "12345"},
        "account_reset_password": {"email": ""},
    }.items():
        answer = visitor.post(reverse(name), fields)
        assert answer.status_code == 200
        found[name] = leaks(answer.text, language, {*LANGUAGES, "not an address"})
    assert found == {"account_login": [], "account_signup": [], "account_reset_password": []}


def test_mails(language, visitor):
    organization = factories.organization(factories.user(f"old-{language}@example.com"))
    visitor.post(reverse("account_reset_password"), {"email": f"old-{language}@example.com"})
    visitor.post(reverse("account_reset_password"), {"email": f"unknown-{language}@example.com"})
    visitor.post(
        reverse("account_signup"),
        {
            "email": f"new-{language}@example.com",
            "password1": "qixing-2026-ok",
            "organization": "七星",
            "currency": "CNY",
        },
    )
    assert organization
    assert [message.to for message in mail.outbox] == [
        [f"old-{language}@example.com"], [f"unknown-{language}@example.com"], [f"new-{language}@example.com"],
    ]  # fmt: skip
    check = english_in if language == "zh-hans" else chinese_in
    for message in mail.outbox:
        assert check([message.subject, *message.body.splitlines()]) == []


def test_the_desk(language, visitor):
    world.everything()
    boss = factories.user("boss@example.com", is_staff=True, is_superuser=True)
    visitor.force_login(boss, backend="django.contrib.auth.backends.ModelBackend")
    # What rows of this test carry as free text or as codes of the source data.
    written = {"looked", "for later", "Unavailable: no answer", "official", "consumer", "INV", "order", "Group"}
    written |= set(Group.objects.values_list("name", flat=True)) | trust.words()
    found = {}
    for model in admin.site._registry:
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        paths = [reverse(f"{base}_changelist")]
        paths += [reverse(f"{base}_change", args=[row.pk]) for row in model._default_manager.all()[:2]]
        paths += [reverse(f"{base}_history", args=[row.pk]) for row in model._default_manager.all()[:1]]
        found |= all_leaks(visitor, language, paths, names(*written, "谢谢", "看过", "Default project", "默认项目"))
    found |= all_leaks(visitor, language, [reverse("admin:index")], names())
    assert found == {}


def catalog_of(po, name):
    with po.open("rb") as file:
        return read_po(file, locale=name)


def test_what_djangos_own_chinese_lacks_is_in_ours():
    """Forms, the login and the desk show texts of Django; scripts' texts (djangojs) belong to widgets nobody uses."""
    ours = {message.id for message in translations.extract()}
    root = Path(django.__file__).parent
    for folder in ("conf", "contrib/admin", "contrib/auth", "contrib/contenttypes", "contrib/humanize"):
        english, chinese = (
            catalog_of(root / folder / "locale" / name / "LC_MESSAGES" / "django.po", name)
            for name in ("en", "zh_Hans")
        )
        for wanted in english:
            if wanted.id and wanted.id not in ours:
                key = wanted.id[0] if isinstance(wanted.id, tuple) else wanted.id
                found = chinese.get(key, wanted.context)
                assert found is not None, wanted.id
                assert found.string, wanted.id
                assert not found.fuzzy, wanted.id
