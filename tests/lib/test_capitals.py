"""Renminbi in capitals: the examples of the rules, every small amount, and any amount read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketplace.lib.capitals import renminbi

DIGITS = {character: value for value, character in enumerate("零壹贰叁肆伍陆柒捌玖")}
PLACES = {"拾": 10, "佰": 100, "仟": 1000}
GROUPS = {"万": 10**4, "亿": 10**8, "兆": 10**12, "京": 10**16}
FEN = {"元": 100, "角": 10, "分": 1}
LARGEST = 10**22 - 1


@pytest.mark.parametrize(
    ("fen", "capitals"),
    [
        (0, "零元整"),
        (1, "壹分"),
        (5, "伍分"),
        (10, "壹角整"),
        (50, "伍角整"),
        (99, "玖角玖分"),
        (100, "壹元整"),
        (101, "壹元零壹分"),
        (110, "壹元壹角整"),
        (1000, "壹拾元整"),
        (1005, "壹拾元零伍分"),
        (1050, "壹拾元伍角整"),
        (10_000, "壹佰元整"),
        (10_100, "壹佰零壹元整"),
        (11_000, "壹佰壹拾元整"),
        (100_000, "壹仟元整"),
        (100_100, "壹仟零壹元整"),
        (101_000, "壹仟零壹拾元整"),
        (110_000, "壹仟壹佰元整"),
        (110_100, "壹仟壹佰零壹元整"),
        (1_200_000, "壹万贰仟元整"),
        (1_000_000, "壹万元整"),
        (1_000_100, "壹万零壹元整"),
        (1_010_000, "壹万零壹佰元整"),
        (1_100_000, "壹万壹仟元整"),
        (10_000_000, "壹拾万元整"),
        (10_700_053, "壹拾万柒仟元伍角叁分"),
        (100_010_000, "壹佰万零壹佰元整"),
        (100_000_000, "壹佰万元整"),
        (1_000_000_000, "壹仟万元整"),
        (10_000_000_000, "壹亿元整"),
        (10_000_000_100, "壹亿零壹元整"),
        (10_000_000_001, "壹亿元零壹分"),
        (10_001_000_000, "壹亿零壹万元整"),
        (10_010_000_000, "壹亿零壹拾万元整"),
        (11_000_000_000, "壹亿壹仟万元整"),
        (100_500_000_000, "壹拾亿零伍佰万元整"),
        (123_456_789_012, "壹拾贰亿叁仟肆佰伍拾陆万柒仟捌佰玖拾元壹角贰分"),
        (1_000_000_000_000, "壹佰亿元整"),
        (100_000_000_000_000, "壹兆元整"),
        (100_000_000_000_100, "壹兆零壹元整"),
        (99_999_999, "玖拾玖万玖仟玖佰玖拾玖元玖角玖分"),
        # The examples of the rules themselves.
        (140_950, "壹仟肆佰零玖元伍角整"),
        (600_714, "陆仟零柒元壹角肆分"),
        (168_032, "壹仟陆佰捌拾元叁角贰分"),
        (1_640_902, "壹万陆仟肆佰零玖元零贰分"),
        (32_504, "叁佰贰拾伍元零肆分"),
        # A credit note.
        (-1_200_000, "负壹万贰仟元整"),
        (-5, "负伍分"),
        (-101, "负壹元零壹分"),
    ],
)
def test_the_amount_in_capitals(fen, capitals):
    assert renminbi(fen) == f"人民币{capitals}"


def read(text):
    """The fen that capitals say, by their meaning and not by the way they were written."""
    text = text.removeprefix("人民币")
    sign = -1 if text.startswith("负") else 1
    fen = group = total = digit = 0
    for character in text.removeprefix("负").removesuffix("整"):
        if character in DIGITS:
            digit = DIGITS[character]
        elif character in PLACES:
            group, digit = group + digit * PLACES[character], 0
        elif character in GROUPS:
            total, group, digit = total + (group + digit) * GROUPS[character], 0, 0
        else:
            fen, total, group, digit = fen + (total + group + digit) * FEN[character], 0, 0, 0
    return sign * fen


def proper(text):
    """What no correct amount has: two zeros in a row, a zero before a unit or the end, an amount without an end."""
    body = text.removeprefix("人民币").removeprefix("负")
    if body == "零元整":
        return True
    wrong = ["零零", "零整", *(f"零{unit}" for unit in "拾佰仟万亿兆京元角分")]
    return body.endswith(("整", "分")) and not body.startswith("零") and not any(part in body for part in wrong)


def test_every_amount_up_to_a_hundred_thousand_yuan_in_steps_and_every_fen_of_small_ones():
    for fen in [*range(1, 20_001), *range(20_001, 10_000_000, 997)]:
        text = renminbi(fen)
        assert read(text) == fen
        assert proper(text), text


@given(st.integers(-LARGEST, LARGEST))
def test_any_amount_can_be_read_back(fen):
    text = renminbi(fen)
    assert read(text) == fen
    assert proper(text), text


@given(st.lists(st.sampled_from("0001234567890"), min_size=1, max_size=22))
def test_amounts_full_of_zeros_can_be_read_back(digits):
    fen = int("".join(digits))
    text = renminbi(fen)
    assert read(text) == fen
    assert proper(text), text


def test_what_has_no_name_is_refused():
    with pytest.raises(ValueError, match="too large"):
        renminbi(LARGEST + 1)
