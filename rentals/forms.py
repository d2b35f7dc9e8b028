"""What narrows the list of rentals; its address is its state."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, Project

STATES = [
    ("", _("All")),
    ("running", _("Running")),
    ("stopped", _("Stopped")),
    ("moving", _("In progress")),
    ("attention", _("Needs attention")),
    ("over", _("Terminated")),
]


class RentalFilterForm(forms.Form):
    """Every field is optional; one that cannot be read gets a message and narrows nothing."""

    q = forms.CharField(label=_("Name"), required=False, max_length=60, strip=True)
    state = forms.ChoiceField(label=_("Status"), required=False, choices=STATES)
    project = forms.TypedChoiceField(label=_("Project"), required=False, coerce=int, empty_value=None)

    def __init__(self, data: Any, organization: Organization) -> None:
        super().__init__(data, auto_id="filter-%s")
        self.projects = {project.pk: project for project in organization.projects.order_by("-is_default", "name")}
        choices = [(pk, project.name) for pk, project in self.projects.items()]
        self.fields["project"].choices = [("", _("All")), *choices]  # type: ignore[attr-defined]
        if len(choices) < 2:
            del self.fields["project"]

    def wanted(self) -> dict[str, Any]:
        """What to narrow by, as far as it could be read."""
        self.full_clean()
        read = self.cleaned_data
        project: Project | None = self.projects.get(read.get("project"))
        return {"name": read.get("q", ""), "state": read.get("state", ""), "project": project}
