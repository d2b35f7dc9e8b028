"""The main job once, by a person who reads Chinese, in Chromium: the walk of `make loop` as it is seen.

Sign up → key → 2 × RTX 4090 by the hour → log in → 8 × H100 for a month → pay → stop → bill → export.
"""

import asyncio
import csv
import json
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from email import message_from_string, policy
from urllib.parse import urlsplit

import asyncssh
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.support import PATIENCE_MS, Look, open_context, watch
from tests.journeys.support import wait_for

EMAIL, PASSWORD = "walker@example.com", "walks-in-chinese-2026"
HOURLY, MONTHLY = "rtx-4090-24gb-2x-fuzhou", "h100-sxm5-80gb-8x-fuzhou"


def test_the_whole_loop_in_chinese(chromium, stack):
    context = open_context(chromium, stack.url, Look())
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=stack.url)
    seen = watch(stack.url, stack.env["STRIPE_API_BASE"])
    page = seen.follow(context.new_page())
    key = asyncssh.generate_private_key("ssh-ed25519")

    sign_up(page, stack)
    add_key(page, key)

    find_4090(page)
    rent(page, HOURLY, term="hour")
    hourly = follow_to_machine(page)
    assert command_of(page, context) == page.locator(".copyable__text").first.inner_text()
    assert log_in(page, key) == 2

    rent(page, MONTHLY, term="month")
    order = page.url
    pay(page, stack)
    page.goto(order)
    expect(page.locator("#order-state")).to_contain_text("已付", timeout=PATIENCE_MS)
    follow_to_machine(page)
    assert log_in(page, key) == 8
    expect(page.locator("main")).to_contain_text("¥96,000.00")

    stop(page, hourly)
    number = look_at_invoice(page, order)
    assert exported(page, number) == Decimal("96000.00")

    assert seen.problems == []
    context.close()


# --- steps, each as a person does it -------------------------------------------------------------------------------
def sign_up(page: Page, stack) -> None:
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    page.locator("main").get_by_role("link", name="注册").click()
    page.get_by_label("邮箱").fill(EMAIL)
    page.locator("input[name=password1]").fill(PASSWORD)
    page.locator("input[name=organization]").fill("行者智能（福州）有限公司")
    page.locator("main button[type=submit]").click()
    expect(page.locator("main")).to_contain_text("邮件")
    page.goto(wait_for(lambda: confirmation_link(stack)))
    page.locator("main button[type=submit]").click()
    expect(page.get_by_role("status")).to_contain_text(EMAIL)


def confirmation_link(stack) -> str:
    """The path in the newest mail to this test's person, or an empty string while there is none."""
    for file in sorted((stack.folder / "mail").glob("*.log"), reverse=True):
        text = file.read_text(encoding="utf-8")
        if f"To: {EMAIL}" in text and (link := re.search(r"https?://\S+/confirm-email/\S+", decoded(text))):
            return urlsplit(link[0]).path
    return ""


def decoded(text: str) -> str:
    parts = (message_from_string(part.strip(), policy=policy.default) for part in text.split("-" * 79))
    return "\n".join(str(part.get_content()) for part in parts if part.keys())


def add_key(page: Page, key: asyncssh.SSHKey) -> None:
    page.goto("/console/keys/")
    expect(page.locator(".empty__title")).to_be_visible()
    page.locator("input[name=name]").fill("工作站")
    page.locator("textarea[name=public_key]").fill(key.export_public_key().decode())
    page.get_by_role("button", name="添加密钥").click()
    expect(page.get_by_role("row", name="工作站")).to_contain_text("ssh-ed25519")


def find_4090(page: Page) -> None:
    """By the filters alone: the family, two cards to a machine, free now."""
    page.locator(".site-nav a[href='/gpus/']").click()
    page.locator("input[name=family][value='RTX 4090']").check()
    page.locator("input[name=size][value='2']").check()
    page.locator("input[name=available]").check()
    page.locator(".filters").get_by_role("button", name="查询").click()
    page.wait_for_url("**family=RTX**")
    expect(page.locator(".offers tbody tr")).to_have_count(1)
    expect(page.locator(".offers tbody tr")).to_contain_text("¥1.98")
    page.locator(f".offers a[href^='/gpus/{HOURLY}/']").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("RTX 4090")
    page.get_by_role("link", name="立即租用").click()
    page.wait_for_url(f"**/order/{HOURLY}/**")


def rent(page: Page, offer: str, *, term: str) -> None:
    """The price follows the choices without a reload; one press orders."""
    if f"/order/{offer}/" not in page.url:
        page.goto(f"/order/{offer}/")
    price = page.locator("#price .figure")
    expect(price).to_contain_text("¥3.96" if offer == HOURLY else "¥176.00")
    if term == "month":
        page.locator("input[name=term][value=month]").check()
        expect(price).to_have_text("¥96,000.00")
        expect(page.locator("#price .sum")).to_contain_text("8 卡")
    page.get_by_role("button", name="提交订单").click()
    page.wait_for_url("**/console/orders/*/")


def follow_to_machine(page: Page) -> str:
    """Watch the steps of the order's machine arrive by themselves; the address of its page."""
    page.locator(".machines a").first.click(timeout=PATIENCE_MS)
    page.wait_for_url("**/console/rentals/*/")
    page.evaluate("window.stayed = true")
    expect(page.locator(".stepper__step[data-state=done]")).to_have_count(4, timeout=PATIENCE_MS * 2)
    expect(page.locator(".page-head .status")).to_have_text("运行中", timeout=PATIENCE_MS)
    assert page.evaluate("window.stayed"), "the steps came by a reload"
    return page.url


def command_of(page: Page, context: BrowserContext) -> str:
    """What the copy button puts on the clipboard."""
    button = page.locator(".copy-button").first
    button.click()
    expect(button).to_have_text("已复制")
    return page.evaluate("navigator.clipboard.readText()")


def log_in(page: Page, key: asyncssh.SSHKey) -> int:
    """Log in as the page says, with the private key; how many cards the machine counts."""
    found = re.fullmatch(r"ssh -p (\d+) (\w+)@([\w.]+)", page.locator(".copyable__text").first.inner_text())
    assert found
    with_key = {"client_keys": [key], "known_hosts": None, "agent_path": None, "config": []}

    async def count() -> int:
        async with asyncssh.connect(found[3], int(found[1]), username=found[2], **with_key) as connection:
            answer = await connection.run("cards --json", check=True)
        return len(json.loads(str(answer.stdout))["cards"])

    return in_a_thread(count)


def in_a_thread(work):
    """Playwright's own loop runs in this thread, and one thread has one loop."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(work())).result(timeout=60)


def pay(page: Page, stack) -> None:
    page.get_by_role("button", name="支付 ¥96,000.00").click(timeout=PATIENCE_MS)
    page.wait_for_url(f"{stack.env['STRIPE_API_BASE']}/**")
    expect(page.locator(".sum")).to_have_text("¥96,000.00")
    page.get_by_role("button", name="支付 ¥96,000.00").click()
    expect(page.locator(".state.paid")).to_have_text("已支付")


def stop(page: Page, machine: str) -> None:
    """The question names what it costs; then the cards are released and the meter counts the disk."""
    page.goto(machine)
    page.locator("#stop").click()
    expect(page.locator(".rental__consequences")).to_contain_text("磁盘")
    page.get_by_role("button", name="确认停机").click()
    page.wait_for_url(machine)
    expect(page.locator(".page-head .status")).to_have_text("已停机", timeout=PATIENCE_MS)
    expect(page.locator(".rental__total")).to_have_text(re.compile(r"^¥\d+\.\d\d$"))
    expect(page.locator("main")).to_contain_text("卡时 × 2")


def look_at_invoice(page: Page, order: str) -> str:
    """The order's invoice; its number."""
    page.goto(order)
    page.locator("#order-state a[href*='/console/invoices/']").click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(re.compile(r"^账单 INV-\d{4}-\d{6}$"))
    expect(page.locator("tfoot")).to_contain_text("¥96,000.00")
    return heading.inner_text().split()[-1]


def exported(page: Page, number: str) -> Decimal:
    """What the downloaded lines of the invoice add up to."""
    page.goto("/console/invoices/")
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    with started.value.path().open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    amount = rows[0].index("价税合计")
    return sum((Decimal(row[amount]) for row in rows[1:] if number in row), Decimal(0))
