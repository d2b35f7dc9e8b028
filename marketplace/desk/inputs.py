"""Form fields as unfold draws them, for the small forms behind a desk's buttons."""

from typing import Any

from django import forms
from django.db.models import Model, QuerySet
from unfold import widgets


class DeskForm(forms.Form):
    """The form of one button. Knows the row it is about and the request, whose query may carry first values."""

    def __init__(self, *args: Any, obj: Model, query: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.obj = obj
        for name in self.fields.keys() & query.keys():
            self.initial.setdefault(name, query[name])


def text(**kwargs: Any) -> forms.CharField:
    return forms.CharField(widget=widgets.UnfoldAdminTextInputWidget, **kwargs)


def note(**kwargs: Any) -> forms.CharField:
    return forms.CharField(widget=widgets.UnfoldAdminTextareaWidget, **kwargs)


def integer(**kwargs: Any) -> forms.IntegerField:
    return forms.IntegerField(widget=widgets.UnfoldAdminIntegerFieldWidget, **kwargs)


def decimal(**kwargs: Any) -> forms.DecimalField:
    return forms.DecimalField(widget=widgets.UnfoldAdminDecimalFieldWidget, **kwargs)


def choice(**kwargs: Any) -> forms.ChoiceField:
    return forms.ChoiceField(widget=widgets.UnfoldAdminSelectWidget, **kwargs)


def row(queryset: QuerySet, **kwargs: Any) -> forms.ModelChoiceField:
    return forms.ModelChoiceField(queryset=queryset, widget=widgets.UnfoldAdminSelectWidget, **kwargs)


def instant(**kwargs: Any) -> forms.DateTimeField:
    """A moment in the site's zone, with the browser's own picker."""
    attrs = {"type": "datetime-local", "step": "1", "class": " ".join(widgets.INPUT_CLASSES)}
    return forms.DateTimeField(widget=forms.DateTimeInput(attrs=attrs, format="%Y-%m-%dT%H:%M:%S"), **kwargs)
