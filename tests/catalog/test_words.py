"""Words that come with the catalogue's files: set once, and people's from then on."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction

from catalog import loading
from catalog.models import GpuModel, Question, Region
from tests.catalog import builders

START = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def test_questions_come_once_and_keep_what_was_edited():
    loading.load(at=START)
    one = Question.objects.get(key="sold-out")
    Question.objects.filter(pk=one.pk).update(answer_zh="问销售。", published=False)

    again = loading.load(at=START)

    one.refresh_from_db()
    assert again.changes == []
    assert (one.answer_zh, one.published, one.offer, one.gpu_model) == ("问销售。", False, None, None)
    assert Question.objects.count() == 11
    assert Question.objects.get(key="ascend-stack").gpu_model == GpuModel.objects.get(slug="ascend-910b3-64gb")


def test_a_region_says_where_data_stays_and_keeps_what_was_edited():
    loading.load(at=START)
    Region.objects.filter(code="cn-beijing").update(data_stays_zh="北京某机房。")
    Region.objects.filter(code="cn-shanghai").update(
        crossing="", data_stays_zh="", data_stays_en="", crossing_zh="", crossing_en=""
    )

    again = loading.load(at=START)

    regions = {region.code: region for region in Region.objects.all()}
    assert [(change.what, change.key) for change in again.changes] == [("changed", "cn-shanghai")]
    assert regions["cn-beijing"].data_stays_zh == "北京某机房。"
    assert regions["cn-fuzhou"].crossing == regions["cn-shanghai"].crossing == Region.Crossing.KEPT
    assert regions["cn-hongkong"].crossing == Region.Crossing.AGREED
    assert all(region.data_stays_zh and region.data_stays_en and region.crossing_zh for region in regions.values())


def test_a_question_is_of_one_thing_and_in_both_languages():
    words = {"question_zh": "问", "question_en": "Q", "answer_zh": "答", "answer_en": "A"}
    offer = builders.offer()
    for wrong in ({"offer": offer, "gpu_model": offer.gpu_model}, {"answer_en": ""}, {"question_zh": ""}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Question.objects.create(**(words | wrong))
    assert not Question.objects.exists()
