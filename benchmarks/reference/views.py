"""Bare views: one ORM query; one order in plain SQL."""

from __future__ import annotations

import uuid

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, HttpResponseRedirect

from catalog.models import Offer


def offers(request: HttpRequest) -> HttpResponse:
    """One ORM query of twenty offers; their slugs as text, no template."""
    return HttpResponse("\n".join(offer.slug for offer in Offer.objects.filter(enabled=True).order_by("slug")[:20]))


def order(request: HttpRequest) -> HttpResponse:
    """Writes every row that an hourly order of one card leaves, without a form, a price or a rule being checked."""
    if not request.user.is_authenticated:
        return HttpResponseForbidden()
    values = {**request.POST.dict(), "user": request.user.pk, "key": uuid.uuid4(), "unit": uuid.uuid4()}
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in ORDER:
            cursor.execute(statement, values)
            row = cursor.fetchone() if cursor.description else None
            if row is None and cursor.rowcount == 0:
                transaction.set_rollback(True)
                return HttpResponse("sold out", status=409)
            if row is not None:
                values |= dict(zip([column.name for column in cursor.description], row, strict=True))
    return HttpResponseRedirect(f"/console/orders/{values['key']}/")


# What a careful hand would write: the guarded UPDATE, the locked host, its card, then the papers.
ORDER = (
    """UPDATE accounts_creditline SET committed_minor = committed_minor + %(headroom)s
        WHERE organization_id = %(organization)s AND standing = 'good'
          AND available_minor >= committed_minor + %(headroom)s""",
    """SELECT id AS host FROM catalog_host WHERE pool_id = %(pool)s AND state = 'active' AND cards_free > 0
        ORDER BY cards_free, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED""",
    """UPDATE catalog_gpu SET holder = %(unit)s
        WHERE id = (SELECT id FROM catalog_gpu WHERE host_id = %(host)s AND holder IS NULL AND healthy
                     ORDER BY slot LIMIT 1) RETURNING id AS gpu""",
    "UPDATE catalog_host SET cards_free = cards_free - 1 WHERE id = %(host)s",
    """INSERT INTO catalog_allocation (gpu_id, period, holder)
       VALUES (%(gpu)s, tstzrange(now(), NULL), %(unit)s)""",
    """INSERT INTO orders_order (key, organization_id, project_id, placed_by_id, request_key, status, currency,
                                 total_minor, placed_at)
       VALUES (%(key)s, %(organization)s, %(project)s, %(user)s, %(request_key)s, 'confirmed', 'CNY', 0, now())
       RETURNING id AS "order" """,
    """INSERT INTO orders_orderline (order_id, offer_id, image_id, public_keys, quantity, cards_per_unit, disk_gb, term,
                                     periods, rate, disk_rate, amount_minor, tax_percent, tax_code, units)
       VALUES (%(order)s, %(offer)s, %(image)s, ARRAY[%(public_key)s], 1, 1, %(disk_gb)s, 'hour', 1, %(rate)s,
               %(disk_rate)s, 0, 6, '', ARRAY[%(unit)s]) RETURNING id AS line""",
    """INSERT INTO orders_orderevent (order_id, status, actor_id, at, note)
       VALUES (%(order)s, 'confirmed', %(user)s, now(), '')""",
    """INSERT INTO orders_subscription (key, organization_id, project_id, order_line_id, unit, term, periods, cards,
                                        disk_gb, currency, rate, disk_rate, tax_percent, tax_code, headroom_minor)
       VALUES (gen_random_uuid(), %(organization)s, %(project)s, %(line)s, %(unit)s, 'hour', 1, 1, %(disk_gb)s, 'CNY',
               %(rate)s, %(disk_rate)s, 6, '', %(headroom)s)""",
)
