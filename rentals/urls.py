"""Addresses of rentals, below /console/."""

from django.urls import path

from rentals.views.activity import Activity, ActivityExport
from rentals.views.auto_stop import AutoStop, RemoveAutoStop
from rentals.views.bulk import BulkStop
from rentals.views.listing import RentalList
from rentals.views.machine import RentalDetail, RentalLive, RentalUtilisation, Start, Stop, Terminate
from rentals.views.overview import Overview
from rentals.views.terms import AutoRenew, Convert, Extend, Restore

app_name = "rentals"
urlpatterns = [
    path("", Overview.as_view(), name="overview"),
    path("activity/", Activity.as_view(), name="activity"),
    path("activity/export/", ActivityExport.as_view(), name="activity_export"),
    path("rentals/", RentalList.as_view(), name="list"),
    path("rentals/stop/", BulkStop.as_view(), name="bulk_stop"),
    path("rentals/<uuid:key>/", RentalDetail.as_view(), name="detail"),
    path("rentals/<uuid:key>/live/", RentalLive.as_view(), name="live"),
    path("rentals/<uuid:key>/utilisation/", RentalUtilisation.as_view(), name="utilisation"),
    path("rentals/<uuid:key>/auto-stop/", AutoStop.as_view(), name="auto_stop"),
    path("rentals/<uuid:key>/auto-stop/remove/", RemoveAutoStop.as_view(), name="auto_stop_remove"),
    path("rentals/<uuid:key>/stop/", Stop.as_view(), name="stop"),
    path("rentals/<uuid:key>/start/", Start.as_view(), name="start"),
    path("rentals/<uuid:key>/extend/", Extend.as_view(), name="extend"),
    path("rentals/<uuid:key>/convert/", Convert.as_view(), name="convert"),
    path("rentals/<uuid:key>/restore/", Restore.as_view(), name="restore"),
    path("rentals/<uuid:key>/auto-renew/", AutoRenew.as_view(), name="auto_renew"),
    path("rentals/<uuid:key>/terminate/", Terminate.as_view(), name="terminate"),
]
