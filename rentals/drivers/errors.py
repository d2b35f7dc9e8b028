"""What may go wrong with an engine, by what follows from it for the rental."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class DriverError(Exception):
    """`code` is stable, `message` translated and fit for the customer, `detail` the engine's words for staff only."""

    code = "driver_error"
    message: str | Promise = _("The machine could not be managed. Our staff has been told.")

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.code)
        self.detail = detail[:500]


class Transient(DriverError):
    """Nothing was done, or it may safely be asked again after `retry_after` seconds."""

    code = "engine_unavailable"
    message = _("The data centre does not answer right now. We keep trying; nothing is lost.")

    def __init__(self, detail: str = "", *, retry_after: int = 5) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class UnknownOutcome(DriverError):
    """A write was sent and no answer came: it may or may not have been done. Observe before anything else."""

    code = "unknown_outcome"
    message = _("We are checking whether the last step arrived at the data centre.")


class NoCapacity(DriverError):
    code = "no_capacity"
    message = _("The data centre has no room for this machine at the moment.")


class Quota(DriverError):
    code = "quota_exceeded"
    message = _("The quota of this pool is used up.")


class InvalidSpec(DriverError):
    """The engine refuses the request as it stands; asking again changes nothing."""

    code = "invalid_spec"
    message = _("The data centre refused this configuration. Our staff has been told.")


class ImageError(DriverError):
    code = "image_unavailable"
    message = _("The image could not be loaded. Please choose another image.")


class AuthError(DriverError):
    """The pool's own credential is missing or refused: pause the pool, not each rental."""

    code = "engine_credentials"
    message = _("The data centre is being maintained. We keep trying; nothing is lost.")


class NodeLost(DriverError):
    """The host stopped reporting. Its machine may still run: fence the host before its cards are sold again."""

    code = "node_lost"
    message = _("The server that carries this machine stopped reporting.")


class Unsupported(DriverError):
    code = "unsupported"
    message = _("This machine does not support the action.")


class Ambiguous(DriverError):
    """More than one object, or an object that is not what was asked for: a person must look."""

    code = "ambiguous"
    message = _("Something at the data centre does not match our records. Our staff has been told.")


ALL = (
    Transient,
    UnknownOutcome,
    NoCapacity,
    Quota,
    InvalidSpec,
    ImageError,
    AuthError,
    NodeLost,
    Unsupported,
    Ambiguous,
)
