"""Gifted credit and vouchers: granted once, spent oldest expiry first, gone when they expire."""

from datetime import timedelta

import pytest

from billing import actions, ledger
from billing.actions.gifts import take_gifts
from billing.models import Book, Gift, Posting, Voucher
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


@pytest.fixture
def lab():
    return factories.organization()


def gift(to, amount=10_000, key="g1", **fields):
    return actions.grant_gift(
        organization=to, amount_minor=amount, reason="Welcome", request_key=key, at=NOON, **fields
    )


def voucher(**fields):
    values = {"amount_minor": 5_000, "currency": "CNY", "valid_until": NOON + 30 * DAY, "days": 90, **fields}
    (made,) = actions.create_vouchers(count=1, reason="Spring campaign", at=NOON, **values)
    return made


def gift_book(of):
    return ledger.balance(actions.account_of(organization=of), Book.GIFT)


def test_a_gift_is_booked_once_a_request(lab):
    first = gift(lab)

    assert gift(lab) == first
    assert (gift_book(lab), Gift.objects.count()) == (10_000, 1)
    assert ledger.trial_balance() == {"CNY": {"gift": -10_000, "promotion": 10_000}}
    assert ledger.check() == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"amount": 0}, "amount_not_positive"),
        ({"amount": -5}, "amount_not_positive"),
        ({"expires_at": NOON}, "expired"),
    ],
)
def test_a_gift_that_cannot_be_leaves_nothing(lab, fields, code):
    with pytest.raises(actions.GiftRefused) as refusal:
        gift(lab, **fields)

    assert refusal.value.code == code
    assert not Gift.objects.exists()
    assert not Posting.objects.exists()


def test_the_first_to_expire_is_spent_first_and_what_never_expires_last(lab):
    never = gift(lab, 1_000, "never")
    late = gift(lab, 1_000, "late", expires_at=NOON + 20 * DAY)
    soon = gift(lab, 1_000, "soon", expires_at=NOON + 10 * DAY)
    over = gift(lab, 1_000, "over", expires_at=NOON + DAY)

    taken = take_gifts(account=actions.account_of(organization=lab), most_minor=2_500, at=NOON + DAY)

    assert taken == 2_500
    assert [Gift.objects.get(pk=each.pk).spent_minor for each in (over, soon, late, never)] == [0, 1_000, 1_000, 500]


def test_no_more_is_taken_than_there_is(lab):
    gift(lab, 700)
    account = actions.account_of(organization=lab)

    assert take_gifts(account=account, most_minor=0, at=NOON) == 0
    assert take_gifts(account=account, most_minor=900, at=NOON) == 700
    assert take_gifts(account=account, most_minor=900, at=NOON) == 0


def test_what_is_left_expires_at_its_instant_once(lab):
    gift(lab, expires_at=NOON + DAY)

    assert actions.expire_gifts(at=NOON + DAY - timedelta(microseconds=1)) == 0
    assert actions.expire_gifts(at=NOON + DAY) == 1
    assert actions.expire_gifts(at=NOON + 2 * DAY) == 0

    assert gift_book(lab) == 0
    assert Gift.objects.get().expired_at == NOON + DAY
    assert list(Posting.objects.order_by("pk").values_list("kind", flat=True)) == ["gift", "gift_expired"]
    assert ledger.check() == []


def test_a_voucher_is_redeemed_once_however_it_is_typed(lab):
    made = voucher()
    typed = f" {made.code[:4].lower()}-{made.code[4:]} "

    first = actions.redeem_voucher(organization=lab, code=typed, at=NOON)

    assert actions.redeem_voucher(organization=lab, code=made.code, at=NOON + DAY) == first
    assert (first.amount_minor, first.expires_at, first.reason) == (5_000, NOON + 90 * DAY, "Spring campaign")
    assert gift_book(lab) == 5_000
    assert ledger.check() == []


def test_a_voucher_that_another_used_gives_nothing(lab):
    made = voucher()
    actions.redeem_voucher(organization=lab, code=made.code, at=NOON)
    other = factories.organization(name="other")

    with pytest.raises(actions.VoucherRefused) as refusal:
        actions.redeem_voucher(organization=other, code=made.code, at=NOON)

    assert refusal.value.code == "used"
    assert gift_book(other) == 0


def test_codes_that_give_nothing(lab):
    dollars, old = voucher(currency="USD"), voucher(valid_until=NOON + DAY)

    for code, expected in (("ABCD", "unknown"), (dollars.code, "currency_differs"), (old.code, "expired")):
        with pytest.raises(actions.VoucherRefused) as refusal:
            actions.redeem_voucher(organization=lab, code=code, at=NOON + DAY)
        assert refusal.value.code == expected
    assert gift_book(lab) == 0
    assert not Voucher.objects.filter(gift__isnull=False).exists()


def test_a_batch_has_a_code_each():
    made = actions.create_vouchers(
        count=200, amount_minor=100, currency="USD", reason="Fair", valid_until=NOON + DAY, at=NOON
    )

    assert len({each.code for each in made}) == 200
    assert {len(each.code) for each in made} == {16}
    for count in (0, 1001):
        with pytest.raises(actions.VoucherRefused):
            actions.create_vouchers(
                count=count, amount_minor=100, currency="USD", reason="", valid_until=NOON + DAY, at=NOON
            )
    assert Voucher.objects.count() == 200
