"""Addresses of orders."""

from django.urls import path

from orders.views.baskets import OrderBasketView
from orders.views.calculator import calculator
from orders.views.placed import CancelOrderView, OrderListView, OrderView
from orders.views.placing import NewOrderView
from orders.views.quotes import AcceptQuoteView, DeclineQuoteView, QuoteListView, QuoteView
from orders.views.requests import RequestQuoteView

app_name = "orders"
urlpatterns = [
    path("calculator/", calculator, name="calculator"),
    path("order/basket/", OrderBasketView.as_view(), name="basket"),
    path("order/<slug:slug>/", NewOrderView.as_view(), name="new"),
    path("console/orders/", OrderListView.as_view(), name="list"),
    path("console/orders/<uuid:key>/", OrderView.as_view(), name="detail"),
    path("console/orders/<uuid:key>/cancel/", CancelOrderView.as_view(), name="cancel"),
    path("console/quotes/", QuoteListView.as_view(), name="quotes"),
    path("quotes/request/", RequestQuoteView.as_view(), name="request_quote"),
    path("quotes/<slug:token>/", QuoteView.as_view(), name="quote"),
    path("quotes/<slug:token>/accept/", AcceptQuoteView.as_view(), name="accept_quote"),
    path("quotes/<slug:token>/decline/", DeclineQuoteView.as_view(), name="decline_quote"),
]
