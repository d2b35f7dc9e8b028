from django.urls import path

from benchmarks.reference import views

urlpatterns = [path("offers/", views.offers), path("order/", views.order)]
