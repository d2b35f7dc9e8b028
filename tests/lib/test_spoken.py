import pytest
from django.utils import translation

from marketplace.lib.spoken import either, in_chinese


@pytest.mark.parametrize(("language", "text"), [("zh-hans", "中"), ("en", "en"), (None, "en")])
def test_a_text_is_in_the_readers_language(language, text):
    with translation.override(language):
        assert either("中", "en") == text


def test_a_named_language_goes_before_the_active_one():
    with translation.override("en"):
        assert in_chinese("zh-hans")
        assert not in_chinese()
