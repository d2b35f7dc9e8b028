"""Addresses of billing."""

from django.urls import path

from billing import views, webhooks
from billing.paper import views as papers
from billing.views import auto_top_up, exports, fapiao, tax

app_name = "billing"
urlpatterns = [
    path("console/billing/", views.Overview.as_view(), name="overview"),
    path("console/balance/", views.Balance.as_view(), name="balance"),
    path("console/balance/top-up/", views.TopUpPage.as_view(), name="top_up"),
    path("console/balance/top-up/<uuid:key>/", views.TopUpDone.as_view(), name="top_up_done"),
    path("console/balance/transfer/", views.Transfer.as_view(), name="transfer"),
    path("console/balance/slips/<uuid:key>/", views.SlipFile.as_view(), name="slip"),
    path("console/balance/auto/", auto_top_up.AutoTopUp.as_view(), name="auto_top_up"),
    path("console/balance/card/", auto_top_up.SaveCard.as_view(), name="save_card"),
    path("console/balance/card/remove/", auto_top_up.RemoveCard.as_view(), name="remove_card"),
    path("console/balance/voucher/", views.VoucherPage.as_view(), name="voucher"),
    path("console/invoices/<uuid:key>/pay-from-balance/", views.PayInvoiceFromBalance.as_view(), name="balance_pay"),
    path("console/orders/<uuid:key>/pay-from-balance/", views.PayOrderFromBalance.as_view(), name="order_balance_pay"),
    path("console/invoices/", views.InvoiceList.as_view(), name="invoices"),
    path("console/billing/tax/", tax.TaxProfilePage.as_view(), name="tax_profile"),
    path("console/invoices/export/<slug:shape>/", views.InvoiceExport.as_view(), name="export"),
    path("console/billing/exports/", exports.Exports.as_view(), name="exports"),
    path("console/billing/exports/<uuid:key>/", exports.ExportFile.as_view(), name="export_file"),
    path("console/invoices/<uuid:key>/", views.InvoiceDetail.as_view(), name="invoice"),
    path("console/invoices/<uuid:key>/pdf/", papers.InvoicePdf.as_view(), name="invoice_pdf"),
    path("console/invoices/<uuid:key>/fapiao/", fapiao.RequestFapiao.as_view(), name="fapiao_request"),
    path("console/fapiao/<uuid:key>/", fapiao.FapiaoFile.as_view(), name="fapiao_file"),
    path("console/fapiao/<uuid:key>/withdraw/", fapiao.WithdrawFapiao.as_view(), name="fapiao_withdraw"),
    path("console/invoices/<uuid:key>/pay/", views.PayInvoice.as_view(), name="pay"),
    path("console/orders/<uuid:key>/pay/", views.PayOrder.as_view(), name="order_pay"),
    path("stripe/webhook/", webhooks.stripe_webhook, name="stripe_webhook"),
]
