"""The design system's filters and tags."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django import forms
from django.core.paginator import Paginator
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import translation

AT = datetime(2026, 11, 30, 16, 5, 9, tzinfo=UTC)


def render(source: str, **context) -> str:
    with translation.override("en"):
        return Template(source).render(Context(context)).strip()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ 123450|money:'CNY' }}", "¥1,234.50"),
        ("{{ -5|money:'USD' }}", "−US$0.05"),
        ("{{ none|money:'CNY' }}", "—"),
        ("{{ rate|rate:'CNY' }}", "¥0.0065"),
        ("{{ none|rate:'CNY' }}", "—"),
        ("{{ 0|dash }}", "0"),
        ("{{ none|dash }}", "—"),
        ("{{ ''|dash }}", "—"),
        ("{{ 1234567|number }}", "1,234,567"),
        ("{{ 100|number }}", "100"),
        ("{{ exact|number }}", "989.4"),
        ("{{ none|unit:'GB' }}", "—"),
        ("{{ 45|duration }}", "45 s"),
        ("{{ 3599|duration }}", "59 min 59 s"),
        ("{{ 12000|duration }}", "3 h 20 min"),
        ("{{ 180000|duration }}", "2 d 2 h"),
    ],
)
def test_a_value_is_shown_as(source, shown):
    assert render(source, none=None, rate=Decimal("0.0065"), exact=Decimal("989.40")) == shown


def test_a_unit_stays_on_the_line_of_its_figure():
    assert render("{{ 80|unit:'GB' }}") == (
        '<span class="quantity">80&nbsp;<span class="quantity__unit">GB</span></span>'
    )


def test_a_moment_is_local_with_utc_as_its_tooltip():
    assert render("{% moment at precision='second' %}", at=AT, portal={"zone": "Asia/Shanghai"}) == (
        '<time class="moment" datetime="2026-11-30T16:05:09Z" title="2026-11-30 16:05:09 UTC">'
        "2026-12-01 00:05:09</time>"
    )
    assert ">2026-11-30 11:05<" in render("{% moment at %}", at=AT, portal={"zone": "America/New_York"})
    assert render("{% moment at %}", at=None) == "—"


def test_what_a_customer_typed_cannot_become_markup():
    hostile = "<script>alert(1)</script>"
    page = render(
        "{% card title=x note=x id=x %}{{ x }}{% endcard %}{% status x x %}{% button x confirm=x %}{% copyable x %}"
        "{% spec x x note=x %}{% alert title=x %}{{ x }}{% endalert %}{% breadcrumbs x '/' x %}{% tab x '/' %}"
        "{% datatable label=x %}{% enddatatable %}{% empty_state title=x %}{{ x }}{% endempty_state %}",
        x=hostile,
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 22


def test_a_state_is_word_and_shape():
    assert render("{% status 'running' 'Running' %}") == (
        '<span class="status" data-status="running"><span class="status__mark" aria-hidden="true"></span>Running</span>'
    )


class _Form(forms.Form):
    name = forms.CharField(label="Name", help_text="As on invoices.")
    note = forms.CharField(label="Note", required=False)
    term = forms.ChoiceField(label="Term", choices=[("hour", "Hour")], widget=forms.RadioSelect)


def test_a_field_ties_label_help_and_error_together():
    html = render("{% field form.name %}", form=_Form({}))
    assert '<label class="field__label" for="id_name">Name</label>' in html
    assert 'aria-describedby="id_name_helptext id_name_error"' in html
    assert 'aria-invalid="true"' in html
    assert '<div class="field__help" id="id_name_helptext">As on invoices.</div>' in html
    assert '<ul class="field__errors" id="id_name_error"><li>This field is required.</li></ul>' in html


def test_a_field_that_may_stay_empty_says_so():
    assert '<span class="field__optional">optional</span>' in render("{% field form.note %}", form=_Form())


def test_radio_buttons_are_a_group_with_a_legend():
    html = render("{% field form.term %}", form=_Form({}))
    assert html.startswith('<fieldset class="field field--group" data-invalid aria-describedby="id_term_error">')
    assert '<legend class="field__label">Term</legend>' in html


def test_pages_keep_the_rest_of_the_address():
    page = Paginator(range(50), 10).get_page(2)
    html = render("{% pagination page %}", page=page, request=RequestFactory().get("/gpus/?family=H100&page=2"))
    assert 'href="?family=H100&amp;page=1" rel="prev"' in html
    assert '<a href="?family=H100&amp;page=2" aria-current="page">2</a>' in html
    assert "50 entries" in html


def test_a_list_of_one_page_has_no_page_links():
    page = Paginator(range(5), 10).get_page(1)
    assert render("{% pagination page %}", page=page, request=RequestFactory().get("/")) == ""
