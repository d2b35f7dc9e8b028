import pytest

from marketplace.local import literals, translations


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "orders").mkdir()
    (tmp_path / "templates").mkdir()
    monkeypatch.setattr(translations, "ROOT", tmp_path)
    monkeypatch.setattr(translations, "CODE", ("orders",))
    return tmp_path


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ('<p>\n  {% translate "Fine" %} {# a note #} <code>ssh root@host</code> &nbsp; 8 GB</p>', []),
        ("{% blocktranslate %}Words\n{{ n }}{% endblocktranslate %}<svg><title>icon</title></svg>", []),
        ('<link rel="stylesheet" href="sheet"><meta name="color-scheme" content="light dark">', []),
        ("<p>\n\nYour order {{ number }}</p>", ["templates/page.html:3: not marked for translation: 'Your order'"]),
        ('<a title="Next page" href="/">1</a>', ["templates/page.html:1: not marked for translation: 'Next page'"]),
        ('<img alt="{{ name }}">', []),
    ],
)
def test_words_of_a_page_have_to_be_marked(project, page, words):
    (project / "templates" / "page.html").write_text(page, encoding="utf-8")
    assert literals.check() == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('name = models.CharField(_("name"), help_text=_("Shown to all."))', []),
        ('name = models.CharField(verbose_name="GPU")', []),
        ('raise ValidationError(_("Too long."), code="length")', []),
        (
            'name = models.CharField(verbose_name="the name")',
            ["the name"],
        ),
        ('raise forms.ValidationError("Too long.")', ["Too long."]),
        ('messages.success(request, f"Order {n}")', ["Order "]),
        ('messages.success(request, _("Done"))', []),
    ],
)
def test_literals_that_django_shows_have_to_be_marked(project, line, words):
    (project / "orders" / "models.py").write_text(line + "\n", encoding="utf-8")
    assert literals.check() == [f"orders/models.py:1: not marked for translation: {text!r}" for text in words]
