"""How an offer is served: what past orders measured, and answers to what is asked."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from catalog.changes import leave_a_change
from catalog.models.cards import GpuModel
from catalog.models.offers import Offer
from catalog.models.stock import Pool
from marketplace.lib.spoken import either


class DeliveryRecord(models.Model):
    """What the orders of a pool measured over `[since, measured_at)`, all sizes together; one row a day.

    Written by `rentals.delivery` from rentals and their events alone, so a figure without orders behind it is null.
    Seconds run from the confirmed order to the verified login. A fault is a machine that was lost or that waited for
    an operator; the answer to it is the first thing a member of our staff did with that machine.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="delivery_records", verbose_name=_("pool"))
    measured_on = models.DateField(_("measured on"))
    measured_at = models.DateTimeField(_("measured at"))
    since = models.DateTimeField(_("measured since"))
    delivered = models.PositiveIntegerField(_("machines delivered"))
    failed = models.PositiveIntegerField(_("machines that never ran"))
    median_seconds = models.PositiveIntegerField(_("median seconds to the login"), null=True)
    p90_seconds = models.PositiveIntegerField(_("90th percentile of seconds to the login"), null=True)
    faults = models.PositiveIntegerField(_("faults"))
    answered = models.PositiveIntegerField(_("faults answered"))
    median_answer_seconds = models.PositiveIntegerField(_("median seconds to the first answer"), null=True)

    class Meta:
        verbose_name = _("delivery record")
        verbose_name_plural = _("delivery records")
        ordering = ["-measured_on", "pool"]
        triggers = [leave_a_change()]
        constraints = [
            models.UniqueConstraint(fields=["pool", "measured_on"], name="delivery_once_a_day"),
            models.CheckConstraint(
                condition=Q(delivered=0, median_seconds__isnull=True, p90_seconds__isnull=True)
                | Q(delivered__gt=0, median_seconds__isnull=False, p90_seconds__gte=models.F("median_seconds")),
                name="delivery_has_orders",
            ),
            models.CheckConstraint(
                condition=Q(answered__lte=models.F("faults"))
                & (
                    Q(answered=0, median_answer_seconds__isnull=True)
                    | Q(answered__gt=0, median_answer_seconds__isnull=False)
                ),
                name="delivery_answers_are_counted",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool} {self.measured_on}"


class Question(models.Model):
    """A question that is asked and its answer, plain text in both languages: of one offer, of a GPU model, or general.

    `key` names one that came with the catalogue's files, so that loading again never adds it twice.
    """

    key = models.SlugField(_("key"), max_length=40, unique=True, null=True, blank=True, editable=False)
    offer = models.ForeignKey(
        Offer, models.CASCADE, null=True, blank=True, related_name="questions", verbose_name=_("offer")
    )
    gpu_model = models.ForeignKey(
        GpuModel, models.CASCADE, null=True, blank=True, related_name="questions", verbose_name=_("GPU model")
    )
    question_zh = models.CharField(_("question (Chinese)"), max_length=120)
    question_en = models.CharField(_("question (English)"), max_length=200)
    answer_zh = models.TextField(_("answer (Chinese)"), help_text=_("Plain text. An empty line ends a paragraph."))
    answer_en = models.TextField(_("answer (English)"))
    position = models.PositiveIntegerField(_("position"), default=100)
    published = models.BooleanField(_("published"), default=True)

    class Meta:
        verbose_name = _("question")
        verbose_name_plural = _("questions")
        ordering = ["position", "pk"]
        triggers = [leave_a_change()]
        constraints = [
            models.CheckConstraint(
                condition=Q(offer__isnull=True) | Q(gpu_model__isnull=True),
                name="question_of_one_thing",
                violation_error_message=_("A question belongs to an offer or to a GPU model, not to both."),
            ),
            models.CheckConstraint(
                condition=~Q(question_zh="") & ~Q(question_en="") & ~Q(answer_zh="") & ~Q(answer_en=""),
                name="question_in_both_languages",
                violation_error_message=_("Question and answer are needed in both languages."),
            ),
        ]

    def __str__(self) -> str:
        return either(self.question_zh, self.question_en)
