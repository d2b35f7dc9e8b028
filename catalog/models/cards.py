"""Accelerators with their figures, where each figure comes from, and the system images for them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog.changes import leave_a_change


class Source(models.Model):
    """Where a figure of the catalogue comes from."""

    key = models.CharField(_("key"), max_length=40, unique=True)
    url = models.URLField(_("address"), max_length=500)
    what = models.TextField(_("what it is"))
    grade = models.CharField(_("grade"), max_length=80)

    class Meta:
        verbose_name = _("source")
        verbose_name_plural = _("sources")
        triggers = [leave_a_change()]

    def __str__(self) -> str:
        return self.key


class GpuModel(models.Model):
    """An accelerator. Rates are dense TFLOPS (INT8: TOPS); null means not published: a dash, never zero."""

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=80)
    aliases = ArrayField(models.CharField(max_length=60), verbose_name=_("aliases"), default=list, blank=True)
    vendor = models.CharField(_("vendor"), max_length=40)
    family = models.CharField(_("family"), max_length=40)
    architecture = models.CharField(_("architecture"), max_length=60, null=True, blank=True)
    memory_gb = models.PositiveIntegerField(_("memory (GB)"), null=True, blank=True)
    memory_type = models.CharField(_("memory type"), max_length=20, null=True, blank=True)
    memory_bandwidth_gbps = models.DecimalField(
        _("memory bandwidth (GB/s)"), max_digits=9, decimal_places=2, null=True, blank=True
    )
    fp64_tflops = models.DecimalField("FP64 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp32_tflops = models.DecimalField("FP32 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    tf32_tflops = models.DecimalField("TF32 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    bf16_tflops = models.DecimalField("BF16 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp16_tflops = models.DecimalField("FP16 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp8_tflops = models.DecimalField("FP8 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp4_tflops = models.DecimalField("FP4 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    int8_tops = models.DecimalField("INT8 (TOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    measured_bf16_tflops = models.DecimalField(
        _("BF16 measured (TFLOPS)"), max_digits=9, decimal_places=3, null=True, blank=True
    )
    tdp_watts = models.PositiveIntegerField(_("power (W)"), null=True, blank=True)
    form_factor = models.CharField(_("form factor"), max_length=60, null=True, blank=True)
    interconnect_type = models.CharField(_("in-node link"), max_length=80, null=True, blank=True)
    interconnect_gbps = models.DecimalField(
        _("in-node link (GB/s per card, both directions)"), max_digits=9, decimal_places=2, null=True, blank=True
    )
    host_bus = models.CharField(_("host bus"), max_length=60, null=True, blank=True)
    host_bus_gbps = models.DecimalField(
        _("host bus (GB/s, both directions)"), max_digits=9, decimal_places=2, null=True, blank=True
    )
    release_year = models.PositiveIntegerField(_("release year"), null=True, blank=True)
    max_gpus_per_node = models.PositiveIntegerField(_("cards per node at most"), null=True, blank=True)
    software_stack = models.CharField(_("software stack"), max_length=40)
    domestic = models.BooleanField(_("domestic"), default=False)
    rental_class = models.CharField(_("class"), max_length=20)
    quote_only = models.BooleanField(_("on quote only"), default=False)
    notes = models.TextField(_("notes"), blank=True)
    sources = models.JSONField(_("sources by field"), default=dict, blank=True)
    uncertain = models.JSONField(_("uncertain fields and why"), default=dict, blank=True)

    class Meta:
        verbose_name = _("GPU model")
        verbose_name_plural = _("GPU models")
        triggers = [leave_a_change()]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def doubt(self, field: str) -> str:
        """Why this field (or the whole record) is uncertain, or an empty string."""
        return self.uncertain.get(field) or self.uncertain.get("*") or ""


class Image(models.Model):
    """A system image. An offer shows only the images of its cards' software stack."""

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=80)
    software_stack = models.CharField(_("software stack"), max_length=40)
    stack_version = models.CharField(_("stack version"), max_length=20)
    framework = models.CharField(_("framework"), max_length=60, blank=True)
    operating_system = models.CharField(_("operating system"), max_length=40)
    driver_range = models.CharField(_("driver range"), max_length=40, blank=True)
    digest = models.CharField(_("digest"), max_length=80)
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("image")
        verbose_name_plural = _("images")
        ordering = ["software_stack", "name"]

    def __str__(self) -> str:
        return self.name
