"""What the vendors' exporters say, read from text as they write it."""

from decimal import Decimal
from pathlib import Path

import pytest

from rentals.drivers import exporter
from rentals.drivers.base import CardReading

EXPORTERS = Path(__file__).parent / "exporters"
DCGM = (EXPORTERS / "dcgm.prom").read_text()
NPU = (EXPORTERS / "npu.prom").read_text()


def test_dcgm_exporters_cards_are_read_with_their_units():
    assert exporter.cards(DCGM) == (
        CardReading(
            serial="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",
            index=0,
            busy=Decimal(78),
            memory_used=28672,
            memory_total=28672 + 52416 + 471,
            temperature=41,
            power=Decimal("402.713"),
        ),
        CardReading(
            serial="GPU-7b3f1a2c-0000-4e5f-9aaa-000000000001",
            index=1,
            busy=Decimal(0),
            memory_used=0,
            memory_total=81088,
            temperature=38,
        ),
    )


def test_npu_exporters_chips_are_read_by_their_die_and_in_order_of_number():
    assert exporter.cards(NPU) == (
        CardReading(
            serial="185011D4-21104518-A0C4ED94-14CC040A-56102003",
            index=0,
            busy=Decimal(93),
            memory_used=14305,
            memory_total=65536,
            temperature=46,
            power=Decimal("73.9000015258789"),
        ),
        # The AI cores rest while the vector cores work: not idle.
        CardReading(serial="185011D4-21E04718-93B2ED94-14CC040A-BF102003", index=10, busy=Decimal(12)),
    )


def test_a_chip_with_ddr_only_shows_that_pair():
    text = (
        'npu_chip_info_total_memory{id="3"} 21534 1613993498553\nnpu_chip_info_used_memory{id="3"} 2703 1613993498553\n'
    )

    assert exporter.cards(text) == (CardReading(serial="", index=3, memory_used=2703, memory_total=21534),)


def test_escapes_and_commas_in_labels_are_part_of_the_name():
    text = r'DCGM_FI_DEV_GPU_UTIL{modelName="a \"b\", {c}=\\ \n",gpu="2",UUID="GPU-\"x\",y"} 5' + "\n"

    assert exporter.cards(text) == (CardReading(serial='GPU-"x",y', index=2, busy=Decimal(5)),)


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-Inf", "-1", "100.5", "9223372036854775794", "1.8446744073709552e+19"]
)
def test_what_is_no_share_is_not_published(value):
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a"}} {value}\nDCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-a"}} 30\n'

    assert exporter.cards(text) == (CardReading(serial="GPU-a", index=0, temperature=30),)


def test_a_missing_series_is_none_and_an_unknown_one_is_left_alone():
    text = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 0\nsomebody_elses_metric{gpu="9"} 4\nup 1\n'

    assert exporter.cards(text) == (CardReading(serial="GPU-a", index=0),)
    assert exporter.cards("up 1\n") == ()
    assert exporter.cards("") == ()


def test_a_card_shared_by_containers_is_as_busy_as_the_busiest():
    text = (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pod="one"} 4\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pod="two"} 61\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pod="three"} 7\n'
    )

    assert [one.busy for one in exporter.cards(text)] == [Decimal(61)]


def test_a_profiled_card_publishes_a_ratio():
    text = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a"} 0.2505\n'

    assert [one.busy for one in exporter.cards(text)] == [Decimal("25.05")]


def test_the_serial_number_is_preferred_where_the_exporter_is_told_to_publish_it():
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",DCGM_FI_DEV_SERIAL="1324422012345"} 9\n'

    assert [one.serial for one in exporter.cards(text)] == ["1324422012345"]


@pytest.mark.parametrize("text", ["<html><body>502 Bad Gateway</body></html>", "not found", 'a{b="c"} \n', '{"a": 1}'])
def test_something_else_than_an_exporter_is_refused(text):
    with pytest.raises(exporter.NotAnExporter):
        exporter.cards(text)
