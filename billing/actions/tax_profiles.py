"""Who the buyer is to the tax bureau: entered by the customer, abroad only once finance has seen the proof."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.actions import sell_as_export
from accounts.models import Organization, User
from billing.models import TaxProfile
from billing.tax import FIELDS, checked
from marketplace.lib.refusals import Refusal


class ExportNotConfirmed(Refusal):
    """The buyer is not taken to sit abroad; its purchases stay taxed."""

    code = "not_foreign"


@transaction.atomic
def save_tax_profile(
    *, organization: Organization, entered: Mapping[str, str], actor: User | None, at: datetime
) -> TaxProfile:
    """Keep the organization's tax profile; documents issued before keep their own copy.

    A change takes back finance's confirmation that the buyer sits abroad. Raises TaxProfileInvalid with every problem
    by field; nothing is saved then.
    """
    kept = checked(entered)
    Organization.objects.select_for_update(no_key=True).get(pk=organization.pk)
    profile = TaxProfile.objects.filter(organization=organization).first() or TaxProfile(organization=organization)
    if profile.pk and all(getattr(profile, name) == kept[name] for name in FIELDS):
        return profile
    for name in FIELDS:
        setattr(profile, name, kept[name])
    profile.updated_by, profile.updated_at = actor, at
    profile.export_confirmed_at = profile.export_confirmed_by = None
    profile.save()
    sell_as_export(organization_id=organization.pk, is_export=False)
    return profile


@transaction.atomic
def confirm_export(*, profile: TaxProfile, actor: User, at: datetime) -> TaxProfile:
    """Finance has seen the proof that the buyer sits abroad. Raises ExportNotConfirmed for one in China."""
    Organization.objects.select_for_update(no_key=True).get(pk=profile.organization_id)
    profile = TaxProfile.objects.get(pk=profile.pk)
    if profile.kind != TaxProfile.Kind.FOREIGN:
        raise ExportNotConfirmed(message=_("This buyer sits in mainland China."))
    if profile.export_confirmed_at is None:
        profile.export_confirmed_at, profile.export_confirmed_by = at, actor
        profile.save(update_fields=["export_confirmed_at", "export_confirmed_by"])
        sell_as_export(organization_id=profile.organization_id, is_export=True)
    return profile
