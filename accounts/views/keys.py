"""Console pages of an organization's SSH keys."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts import actions
from accounts.access import OrganizationRequired
from accounts.forms import SshKeyForm
from accounts.keys import KeyRefused
from accounts.permissions import can
from marketplace.lib import clock
from rentals.queries import admitting

# Machines of a key that are named in the list; the others are counted.
NAMED = 3


class KeysView(OrganizationRequired, View):
    """The organization's SSH keys and the machines that admit each; a form to add one where the role allows it."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(SshKeyForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        if not can(self.membership, "keys"):
            return self.handle_no_permission()
        form = SshKeyForm(request.POST)
        if self.switched:
            return self._page(form, status=409)
        if form.is_valid() and self._added(form):
            messages.success(request, _("Key added."))
            return redirect("accounts:keys")
        return self._page(form, status=422)

    def _added(self, form: SshKeyForm) -> bool:
        data = form.cleaned_data
        try:
            actions.add_ssh_key(
                organization=self.organization,
                name=data["name"],
                text=data["public_key"],
                actor=self.request.user,
                at=clock.now(),
            )
        except KeyRefused as refusal:
            form.add_error("name" if refusal.about_name else "public_key", refusal.message)
            return False
        return True

    def _page(self, form: SshKeyForm, status: int = 200) -> HttpResponse:
        machines = admitting(self.organization)
        keys = self.organization.ssh_keys.select_related("created_by").order_by("name")
        rows = [(key, used[:NAMED], len(used[NAMED:])) for key in keys for used in [machines.get(key.public_key, [])]]
        context = {"form": form, "rows": rows, "may_edit": can(self.membership, "keys"), "switched": self.switched}
        return render(self.request, "accounts/keys.html", context, status=status)


class DefaultKeyView(OrganizationRequired, View):
    """Tick a key on the form of new orders from now on, or no longer."""

    verb = "keys"
    http_method_names = ("post",)

    def post(self, request: HttpRequest, key) -> HttpResponse:
        row = get_object_or_404(self.organization.ssh_keys, key=key)
        actions.choose_key_for_new_orders(key=row, chosen=request.POST.get("chosen") == "yes")
        return redirect("accounts:keys")


class RemoveKeyView(OrganizationRequired, View):
    """Ask, then forget one key of the organization."""

    verb = "keys"

    def get(self, request: HttpRequest, key) -> HttpResponse:
        return render(request, "accounts/remove_key.html", {"key": self._key(key)})

    def post(self, request: HttpRequest, key) -> HttpResponse:
        actions.remove_ssh_key(key=self._key(key))
        messages.success(request, _("Key removed. Machines that already run with it keep admitting it."))
        return redirect("accounts:keys")

    def _key(self, key):
        return get_object_or_404(self.organization.ssh_keys, key=key)
