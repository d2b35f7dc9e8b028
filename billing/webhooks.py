"""What Stripe sends: verified, stored once, answered. A sweep does the work."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from billing import stripe_gateway, tasks
from billing.models import StripeEvent
from marketplace.lib import clock
from marketplace.lib.nudge import nudge


@csrf_exempt
@require_POST
def stripe_webhook(request: HttpRequest) -> HttpResponse:
    """200 once the event is stored (also when it already was), 400 when Stripe did not sign it."""
    try:
        event = stripe_gateway.construct_event(
            payload=request.body, signature=request.headers.get("Stripe-Signature", "")
        )
    except stripe_gateway.BadSignature:
        return HttpResponse("bad signature", status=400, content_type="text/plain")
    row = StripeEvent(
        stripe_id=event.id,
        type=event.type[:64],
        object_id=event.subject_id,
        payload=event.payload,
        received_at=clock.now(),
    )
    StripeEvent.objects.bulk_create([row], ignore_conflicts=True)
    nudge(tasks.apply_stripe_events)
    return HttpResponse("stored", content_type="text/plain")
