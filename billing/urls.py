"""Addresses of billing."""

from django.urls import path

from billing import views, webhooks
from billing.paper import views as papers
from billing.views import tax

app_name = "billing"
urlpatterns = [
    path("console/billing/", views.Overview.as_view(), name="overview"),
    path("console/invoices/", views.InvoiceList.as_view(), name="invoices"),
    path("console/billing/tax/", tax.TaxProfilePage.as_view(), name="tax_profile"),
    path("console/invoices/export/<slug:shape>/", views.InvoiceExport.as_view(), name="export"),
    path("console/invoices/<uuid:key>/", views.InvoiceDetail.as_view(), name="invoice"),
    path("console/invoices/<uuid:key>/pdf/", papers.InvoicePdf.as_view(), name="invoice_pdf"),
    path("console/invoices/<uuid:key>/pay/", views.PayInvoice.as_view(), name="pay"),
    path("console/orders/<uuid:key>/pay/", views.PayOrder.as_view(), name="order_pay"),
    path("stripe/webhook/", webhooks.stripe_webhook, name="stripe_webhook"),
]
