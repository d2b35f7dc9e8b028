"""The guide's words: what each rule says, and names of purposes, stages and scenarios."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Text = str | Promise

# R: rules of choice. F: formulas. S: by the size of the company. C: by the kind of work.
RULES: dict[str, Text] = {
    "R1": _("Government work and a domestic stack get domestic cards only, the Ascend 910B first."),
    "R2": _(
        "FP8 and FP4 are planned only on cards that publish the rate; on any other card the same model is served in"
        " INT8."
    ),
    "R3": _("A card whose memory is not published cannot be sized; it is available on quote only."),
    "R4": _(
        "Training on two or more cards, and one job sharded over four or more, needs a link that joins the server’s"
        " cards (NVLink, HCCS). PCIe cards stay visible with a warning and rank last."
    ),
    "R5": _(
        "One job larger than a server needs RDMA (InfiniBand or RoCEv2) at the rate worked out; consumer and PCIe"
        " cards are left out."
    ),
    "R6": _("Where one copy fits in a server, LoRA and serving grow by copies: no RDMA, ordinary Ethernet is enough."),
    "R7": _(
        "An Ascend 910B job sharded over 2 to 4 cards takes the whole 8-card server: all_reduce was measured at 18, 30"
        " and 72 GB/s on 2, 4 and 8 cards."
    ),
    "R8": _(
        "With a deadline, the number of cards is the larger of what memory and what time need, rounded up to a number"
        " that is sold."
    ),
    "R9": _("Plans rank by the total of the job at its cheapest term, then by fewer cards; three are shown."),
    "R10": _("A plan that rests on an uncertain figure is marked as an estimate and says why."),
    "F1": _(
        "Training states: bytes per parameter × parameters. Full training 18 (AdamW, mixed precision), pure BF16 8,"
        " LoRA 2.3, QLoRA 1.43 (8-bit) and 0.86 (4-bit)."
    ),
    "F2": _(
        "Activations per card with checkpointing: (2·L·b·s·h + 56·b·s·h + 6·b·s·V) / 10⁹ GB. Layers L, hidden size h"
        " and vocabulary V are those of the smallest published model that is as large; s is the sequence, b the batch"
        " per card."
    ),
    "F3": _("Cards: the smallest of 1, 2, 4, 8, 16, 24 … on which each card fills at most nine tenths of its memory."),
    "F4": _(
        "Serving: weights = parameters × bytes; KV cache = 2 bytes × 2 × L × h × KV heads ÷ heads × context × requests"
        " at once; 2 GB per card for the runtime."
    ),
    "F5": _(
        "Card-hours: 8 × parameters × tokens ÷ (TFLOPS × MFU × 3600). MFU is 0.40, on PCIe and domestic cards 0.30."
    ),
    "F6": _("Term: the cheapest of hours, months and begun years; in a tie the shorter commitment."),
    "S1": _("Start-up, checking an algorithm: by the hour, 1–2 cards."),
    "S2": _("University or lab: by the hour or month, 1–8 cards, with an export of usage and operations."),
    "S3": _("Growing company: 8-card servers by the month or year, bursts by the hour; colocation can be quoted."),
    "S4": _(
        "Mid-size AI company or solution vendor: whole 8-card servers with NVLink by the month or year, or hosting."
    ),
    "S5": _(
        "Large company or research institute: an RDMA cluster by the year, in several regions, with a salesperson."
    ),
    "C1": _("AIGC and rendering: RTX 5090 or 4090, by the hour for peaks."),
    "C2": _(
        "Pre-training and full fine-tuning: B300 or H200 by the month, NVLink in the server and RDMA between them."
    ),
    "C3": _(
        "Government and domestic stack: Ascend 910B by the month or year, with maintenance and networking service."
    ),
    "C4": _("Cross-border business: our sales clarify where users and data are before the network is chosen."),
    "C5": _("Research and university: A100 or RTX 4090 by the hour, with an audit trail."),
    "C6": _("Traditional company going digital: L40S in small packs, one supplier for the whole."),
}

PURPOSES: dict[str, Text] = {
    "pretrain": _("Pre-training"),
    "full": _("Full fine-tuning"),
    "full_pure_bf16": _("Full fine-tuning, pure BF16"),
    "lora": _("LoRA fine-tuning"),
    "qlora8": _("QLoRA fine-tuning, 8-bit"),
    "qlora4": _("QLoRA fine-tuning, 4-bit"),
    "inference": _("Inference"),
    "aigc": _("AIGC images and video, rendering"),
}
STAGES: dict[str, Text] = {
    "startup": _("Start-up, algorithm check"),
    "university": _("University or lab"),
    "growing": _("Growing company"),
    "midsize": _("Mid-size AI company, solution vendor"),
    "large": _("Large company, research institute"),
}
SCENARIOS: dict[str, Text] = {
    "aigc": _("AIGC and rendering"),
    "training": _("Pre-training, full fine-tuning"),
    "government": _("Government, domestic stack"),
    "crossborder": _("Cross-border business"),
    "research": _("Research and teaching"),
    "traditional": _("Traditional company going digital"),
}
PRECISIONS = {
    "bf16": "BF16", "fp16": "FP16", "fp8": "FP8", "fp4": "FP4", "int8": "INT8", "int4": "INT4", "fp32": "FP32",
}  # fmt: skip
FIELDS: dict[str, Text] = {
    "memory_gb": _("memory"),
    "bf16_tflops": _("BF16 rate"),
    "fp8_tflops": _("FP8 rate"),
    "fp4_tflops": _("FP4 rate"),
    "interconnect_type": _("in-node link"),
    "max_gpus_per_node": _("cards per server"),
}
