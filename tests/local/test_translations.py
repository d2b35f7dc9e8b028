import gettext
import json

import pytest

from marketplace.local import translations

HEADER = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"

"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of one module and one template."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "views.py").write_text(
        "from django.utils.translation import gettext_lazy as _, ngettext, pgettext\n"
        'sold_out = _("Sold out")\n'
        'cards = ngettext("%(n)s card", "%(n)s cards", n) % {"n": n}\n'
        'stop = pgettext("verb", "Stop")\n'
        "unknown = _(variable)\n",
        encoding="utf-8",
    )
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text(
        '{% load i18n %}\n    <p>{% translate "Don\'t pay" %}\n  {% blocktranslate trimmed with price=p %}\n'
        "     From {{ price }}\n     an hour{% endblocktranslate %}</p>\n",
        encoding="utf-8",
    )
    folder = tmp_path / "locale" / "zh_Hans" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    monkeypatch.setattr(translations, "ROOT", tmp_path)
    monkeypatch.setattr(translations, "CODE", ("orders",))
    return folder / "django.po"


COMPLETE = (
    HEADER
    + """msgid "Sold out"
msgstr "已售罄"

msgid "%(n)s card"
msgid_plural "%(n)s cards"
msgstr[0] "%(n)s 张卡"

msgctxt "verb"
msgid "Stop"
msgstr "停止"

msgid "Don't pay"
msgstr "不付费"

msgid "From %(price)s an hour"
msgstr "每小时 %(price)s 起"
"""
)


def test_texts_are_found_in_code_and_templates(project):
    found = {(message.context, message.id) for message in translations.extract() if message.id}
    assert found == {
        (None, "Sold out"),
        (None, ("%(n)s card", "%(n)s cards")),
        ("verb", "Stop"),
        (None, "Don't pay"),
        (None, "From %(price)s an hour"),
    }


def test_a_complete_catalogue_passes(project):
    project.write_text(COMPLETE, encoding="utf-8")
    assert translations.check(project.parents[2]) == []


@pytest.mark.parametrize(
    ("complete", "broken", "fault"),
    [
        ('msgstr "已售罄"', 'msgstr ""', "zh_Hans: missing: 'Sold out' (orders/views.py)"),
        ('msgid "Sold out"', '#, fuzzy\nmsgid "Sold out"', "zh_Hans: fuzzy: 'Sold out' (orders/views.py)"),
        ('msgctxt "verb"\n', "", "zh_Hans: missing: 'Stop' (orders/views.py)"),
    ],
)
def test_a_gap_is_named_with_its_file(project, complete, broken, fault):
    project.write_text(COMPLETE.replace(complete, broken), encoding="utf-8")
    assert translations.check(project.parents[2]) == [fault]


def test_a_translation_that_loses_a_placeholder_is_a_fault(project):
    project.write_text(COMPLETE.replace("每小时 %(price)s 起", "每小时 %(prise)s 起"), encoding="utf-8")
    faults = translations.check(project.parents[2])
    assert len(faults) == 1
    assert "From %(price)s an hour" in faults[0]


def test_an_obsolete_entry_does_not_count(project):
    commented = 'msgid "Sold out"\nmsgstr "已售罄"\n'
    obsolete = "".join(f"#~ {line}\n" for line in commented.splitlines())
    project.write_text(COMPLETE.replace(commented, "") + "\n" + obsolete, encoding="utf-8")
    assert translations.check(project.parents[2]) == ["zh_Hans: missing: 'Sold out' (orders/views.py)"]


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("Dear {name}", "{nome}您好"),
        ('Read <a href="{}">this</a>', "请阅读{}"),
        ("<strong>No</strong>", "<em>否</em>"),
    ],
)
def test_braces_and_tags_have_to_survive_translation(project, english, chinese):
    (project.parents[3] / "orders" / "views.py").write_text(f"text = gettext({english!r})\n", encoding="utf-8")
    entry = "\nmsgid {}\nmsgstr {}\n".format(*(json.dumps(text, ensure_ascii=False) for text in (english, chinese)))
    project.write_text(COMPLETE + entry, encoding="utf-8")
    faults = translations.check(project.parents[2])
    assert len(faults) == 1
    assert "other placeholders or tags" in faults[0]


def test_gathering_again_changes_nothing(project):
    project.write_text(COMPLETE, encoding="utf-8")
    translations.gather(project.parents[2])
    once = project.read_bytes()
    translations.gather(project.parents[2])
    assert project.read_bytes() == once


def test_a_language_without_a_file_has_every_text_missing(project):
    assert len(translations.check(project.parents[2])) == 5


def test_gathering_keeps_what_is_translated_and_adds_the_rest_empty(project):
    project.write_text(HEADER + 'msgid "Sold out"\nmsgstr "已售罄"\n', encoding="utf-8")
    translations.gather(project.parents[2])
    text = project.read_text(encoding="utf-8")
    assert 'msgid "Sold out"\nmsgstr "已售罄"\n' in text
    assert 'msgid "Don\'t pay"\nmsgstr ""\n' in text
    assert len(translations.check(project.parents[2])) == 4


def test_compiling_happens_once_per_change(project):
    project.write_text(COMPLETE, encoding="utf-8")
    locale = project.parents[2]
    assert translations.compile_stale(locale) == [project.with_suffix(".mo")]
    assert translations.compile_stale(locale) == []
    with project.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert compiled.gettext("Sold out") == "已售罄"
    assert compiled.ngettext("%(n)s card", "%(n)s cards", 3) == "%(n)s 张卡"
    assert compiled.pgettext("verb", "Stop") == "停止"
