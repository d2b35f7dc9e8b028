"""Every address of the site. Pages live in the app of their noun; names are `app:page`; each language has its own."""

from django.conf import settings
from django.contrib import admin
from django.contrib.sitemaps.views import sitemap
from django.http import Http404
from django.urls import include, path
from django.views.decorators.http import require_safe
from django.views.defaults import page_not_found

from marketplace import views
from marketplace.lib.addresses import in_languages
from marketplace.sitemaps import SITEMAPS

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("i18n/setlang/", views.set_language, name="set_language"),
    path("currency/", views.set_currency, name="set_currency"),
    path("robots.txt", views.robots, name="robots"),
    path("sitemap.xml", require_safe(sitemap), {"sitemaps": SITEMAPS}, name="sitemap"),
    path("favicon.ico", views.favicon, name="favicon"),
    path("service-worker.js", views.service_worker, name="service_worker"),
    path("admin/", admin.site.urls),
    *in_languages(
        path("", views.home, name="home"),
        path("offline/", views.offline, name="offline"),
        path("accounts/", include("allauth.urls")),
        path("console/", include("accounts.urls")),
        path("", include("catalog.urls")),
        path("", include("trust.urls")),
        path("", include("orders.urls")),
        path("console/", include("rentals.urls")),
        path("", include("billing.urls")),
    ),
]

if settings.DEBUG:
    # Django's own page stands at unknown addresses then; ours can be looked at here.
    urlpatterns += [
        path("design/", views.design, name="design"),
        path("design/404/", page_not_found, {"exception": Http404()}),
    ]
