"""Every setting, read from the environment once; `.env.example` documents each variable."""

from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from marketplace.lib import env

BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = env.boolean("DEBUG", False)
# What a local installation keeps: mails, the demo customer's SSH key. Each stack that runs beside another has its own.
LOCAL_DIR = Path(env.text("LOCAL_DIR", str(BASE_DIR / ".local")))
SECRET_KEY = env.secret("SECRET_KEY", "only-for-local-development" if DEBUG else "")
if not SECRET_KEY:
    raise ImproperlyConfigured("SECRET_KEY must be set when DEBUG is off")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]" if DEBUG else "")
SITE_URL = env.text("SITE_URL", "http://127.0.0.1:8000")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", SITE_URL)
# Labels on every engine object, so that two installations can share an engine without touching each other's machines.
INSTALLATION = env.text("INSTALLATION", "local")

INSTALLED_APPS = [
    "marketplace",
    "accounts",
    "catalog",
    "trust",
    "orders",
    "rentals",
    "billing",
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "marketplace.desk.apps.DeskConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.sitemaps",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "pgtrigger",
    "pghistory",
    "csp",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # The token against forged forms is masked anew in every answer and the length padded, so compression tells nothing.
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "marketplace.middleware.PrivatePages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "marketplace.middleware.LocaleMiddleware",
    "marketplace.middleware.ReadableAddresses",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "accounts.middleware.OrganizationMiddleware",
    "marketplace.middleware.AdminContentSecurityPolicy",
]

ROOT_URLCONF = "marketplace.urls"
WSGI_APPLICATION = "marketplace.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "marketplace.context.site",
            ],
            "builtins": ["marketplace.lib.templatetags.components", "marketplace.lib.templatetags.values"],
        },
    }
]


def _database(url: str) -> dict:
    """postgres://user:password@host:port/name as Django's setting; PostgreSQL only, one truth."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured("DATABASE_URL must be a postgres:// address")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": env.integer("DATABASE_CONN_MAX_AGE", 60, minimum=0),
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": False,
    }


DATABASES = {"default": _database(env.secret("DATABASE_URL", "postgres://postgres@127.0.0.1:5432/marketplace"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.secret("REDIS_URL", "redis://127.0.0.1:6379/0")
# The cache holds rate limits and nothing that anyone is billed by; flushing it loses no fact.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

# --- who may log in -------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "optional"
ACCOUNT_CONFIRM_EMAIL_ON_GET = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
# Whoever is not the one who changed the password, the address or the second factor should hear of it.
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_SIGNUP_FORM_CLASS = "accounts.forms.SignupForm"
ACCOUNT_LOGIN_BY_CODE_ENABLED = False
ACCOUNT_SESSION_REMEMBER = True
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = reverse_lazy("rentals:overview")
ACCOUNT_LOGOUT_REDIRECT_URL = "/"

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEBUG
SESSION_COOKIE_AGE = int(timedelta(days=14).total_seconds())
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = env.integer("SECURE_HSTS_SECONDS", 0, minimum=0)
if env.boolean("BEHIND_TLS_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
X_FRAME_OPTIONS = "DENY"

STRIPE_API_BASE = env.text("STRIPE_API_BASE", "https://api.stripe.com")
# Where invoices and top-ups are paid. Paying is a form whose answer redirects there, which browsers hold against
# form-action.
STRIPE_HOSTED_ORIGINS = env.words(
    "STRIPE_HOSTED_ORIGINS",
    "https://invoice.stripe.com,https://checkout.stripe.com"
    if STRIPE_API_BASE == "https://api.stripe.com"
    else STRIPE_API_BASE.rstrip("/"),
)

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF, *STRIPE_HOSTED_ORIGINS],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
# unfold evaluates Alpine expressions and sets inline styles; everything else stays as tight as the site.
ADMIN_CONTENT_SECURITY_POLICY = {
    **CONTENT_SECURITY_POLICY["DIRECTIVES"],
    "script-src": [SELF, "'unsafe-eval'"],
    "style-src": [SELF, "'unsafe-inline'"],
}

# What Django's own error page hides while DEBUG is on, beside what it knows of itself.
DEFAULT_EXCEPTION_REPORTER_FILTER = "marketplace.lib.debugging.HidesAddresses"

# --- the provider's desk ----------------------------------------------------------------------------------------------
UNFOLD = {
    "SITE_TITLE": "marketplace.desk.navigation.site_title",
    "SITE_HEADER": "marketplace.desk.navigation.site_title",
    "SITE_SYMBOL": "memory",
    "SITE_FAVICONS": "marketplace.desk.navigation.favicons",
    "STYLES": ["marketplace.desk.navigation.stylesheet"],
    "SHOW_LANGUAGES": True,
    "SHOW_HISTORY": True,
    "ENVIRONMENT": "marketplace.desk.navigation.environment",
    "DASHBOARD_CALLBACK": "marketplace.desk.dashboard.overview",
    "SIDEBAR": {"show_search": False, "navigation": "marketplace.desk.navigation.sidebar"},
    # The site's accent (tokens.css) as unfold's scale of one hue.
    "COLORS": {
        "primary": {
            "50": "#eef8fa", "100": "#e2f0f3", "200": "#bfe0e8", "300": "#8ad8e6", "400": "#62c7da", "500": "#2a9db3",
            "600": "#0b5e70", "700": "#084a59", "800": "#0a3d49", "900": "#173138", "950": "#05262d",
        }
    },
}  # fmt: skip

# --- languages, time, money ------------------------------------------------------------------------------------------
LANGUAGE_CODE = "zh-hans"
LANGUAGES = [("zh-hans", _("Simplified Chinese")), ("en", _("English"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = USE_TZ = True
TIME_ZONE = "Asia/Shanghai"
LANGUAGE_COOKIE_AGE = int(timedelta(days=365).total_seconds())
DEFAULT_CURRENCY = "CNY"

# --- files ---------------------------------------------------------------------------------------------------------
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "staticfiles"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "marketplace.lib.staticfiles.SiteStorage"
    },
}
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = DEBUG
MEDIA_ROOT = Path(env.text("MEDIA_ROOT", str(BASE_DIR / "media")))

# --- mail ------------------------------------------------------------------------------------------------------------
EMAIL_BACKEND = env.text(
    "EMAIL_BACKEND",
    "django.core.mail.backends.filebased.EmailBackend" if DEBUG else "django.core.mail.backends.smtp.EmailBackend",
)
EMAIL_FILE_PATH = env.text("EMAIL_FILE_PATH", str(LOCAL_DIR / "mail"))
EMAIL_HOST = env.text("EMAIL_HOST", "localhost")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, minimum=1)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.secret("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", False)
# Seconds; a mail server that hangs must not hold up a worker.
EMAIL_TIMEOUT = env.integer("EMAIL_TIMEOUT", 20, minimum=1)
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "GPU Cloud <noreply@localhost>")

# --- payments --------------------------------------------------------------------------------------------------------
STRIPE_API_KEY = env.secret("STRIPE_API_KEY", "sk_test_sandbox" if DEBUG else "")
STRIPE_WEBHOOK_SECRET = env.secret("STRIPE_WEBHOOK_SECRET", "whsec_sandbox" if DEBUG else "")
# Seconds one call to Stripe may take; a longer one counts as unknown and is looked up before it is repeated.
STRIPE_TIMEOUT = env.integer("STRIPE_TIMEOUT", 20, minimum=1)

# --- exports ---------------------------------------------------------------------------------------------------------
# Where finished exports are kept, by nobody but this program; deleted after so many days.
EXPORT_FOLDER = Path(env.text("EXPORT_FOLDER", str(LOCAL_DIR / "exports")))
EXPORT_DAYS = env.integer("EXPORT_DAYS", 7, minimum=1)
# Up to so many rows are written while the browser waits; more become a job.
EXPORT_ROWS_IN_REQUEST = env.integer("EXPORT_ROWS_IN_REQUEST", 5000, minimum=0)
# Seconds a job may be silent before another worker takes it over.
EXPORT_LEASE_SECONDS = env.integer("EXPORT_LEASE_SECONDS", 60, minimum=5)
# The internal location under which nginx serves EXPORT_FOLDER (X-Accel-Redirect); empty: this program sends the file.
EXPORT_ACCEL_PREFIX = env.text("EXPORT_ACCEL_PREFIX")
# The chart of accounts that vouchers are written with, as book=code:name.
VOUCHER_ACCOUNTS = env.accounts(
    "VOUCHER_ACCOUNTS",
    "cash=1002:银行存款,receivable=1122:应收账款,wallet=2203:预收账款,gift=2241:其他应付款,unbilled=2203.01:预收账款—待结算,"
    "revenue=6001:主营业务收入,tax=2221.01.07:应交税费—应交增值税（销项税额）,refunds=2241.01:其他应付款—应退款,"
    "promotion=6601:销售费用,rounding=6603:财务费用",
)
VOUCHER_WORD = env.text("VOUCHER_WORD", "记")
XERO_ACCOUNT_CODE = env.text("XERO_ACCOUNT_CODE", "200")
XERO_TAX_TYPE = env.text("XERO_TAX_TYPE", "Tax on Sales")
QUICKBOOKS_TAX_CODE = env.text("QUICKBOOKS_TAX_CODE", "VAT")

# --- engines ---------------------------------------------------------------------------------------------------------
# Pools name their endpoint and credential in the database; the demo pool's come from here.
DEMO_ENGINE_URL = env.text("DEMO_ENGINE_URL", "http://127.0.0.1:8020")
DEMO_ENGINE_TOKEN = env.secret("DEMO_ENGINE_TOKEN", "demo-engine" if DEBUG else "")
# Seconds a worker holds a rental for one step: longer than a driver's calls with their timeouts.
RENTALS_LEASE_SECONDS = env.integer("RENTALS_LEASE_SECONDS", 30, minimum=1)

# --- rules of the business, all adjustable ---------------------------------------------------------------------------
ORDER_HOLD_MINUTES = env.integer("ORDER_HOLD_MINUTES", 30, minimum=1)
# Working days for an order that is too large (or too small) to be paid online.
ORDER_HOLD_BANK_DAYS = env.integer("ORDER_HOLD_BANK_DAYS", 5, minimum=1)
# What a prepaid term that its customer ends early pays back: none, five_days_once or prorated.
ORDERS_REFUND_RULE = env.one_of("ORDERS_REFUND_RULE", "five_days_once", ("none", "five_days_once", "prorated"))
# Hours of burn an hourly order must be covered for when it is placed.
HEADROOM_HOURS = env.integer("HEADROOM_HOURS", 24, minimum=1)
STOPPED_RETENTION_DAYS = env.integer("STOPPED_RETENTION_DAYS", 15, minimum=1)
EXPIRED_RETENTION_DAYS = env.integer("EXPIRED_RETENTION_DAYS", 15, minimum=1)
CLUSTER_RETENTION_DAYS = env.integer("CLUSTER_RETENTION_DAYS", 7, minimum=1)
# A wallet below zero: hours that machines by the hour run on, days their data is then kept, the days of these on which
# the customer is told again, and minutes between marking data for deletion and deleting it (the balance is read twice).
ARREARS_GRACE_HOURS = env.integer("ARREARS_GRACE_HOURS", 2, minimum=0)
ARREARS_RETENTION_DAYS = env.integer("ARREARS_RETENTION_DAYS", 15, minimum=1)
ARREARS_NOTICE_DAYS = env.integers("ARREARS_NOTICE_DAYS", "7,12,14", minimum=1)
ARREARS_RELEASE_MINUTES = env.integer("ARREARS_RELEASE_MINUTES", 10, minimum=0)
# Days after the day of payment on which customers with a credit line are reminded of an unpaid invoice.
DUNNING_DAYS = env.integers("DUNNING_DAYS", "3,7,14", minimum=1)
# Requests for a quote an hour, from one organization or, without one, from one address.
QUOTE_REQUESTS_PER_HOUR = env.integer("QUOTE_REQUESTS_PER_HOUR", 10, minimum=1)
# How long units that became free are announced to one on the waitlist before the next is told of them.
WAITLIST_TURN_MINUTES = env.integer("WAITLIST_TURN_MINUTES", 30, minimum=1)
# The days of past orders that delivery and response times are measured over.
DELIVERY_WINDOW_DAYS = env.integer("DELIVERY_WINDOW_DAYS", 90, minimum=1)
TAX_PERCENT = env.text("TAX_PERCENT", "6")
TAX_CODE = env.text("TAX_CODE", "3040203000000000000")
# How long after its end a month lies as a draft, so that late usage still enters it.
INVOICE_GRACE_HOURS = env.integer("INVOICE_GRACE_HOURS", 6, minimum=0)
INVOICE_DAYS_UNTIL_DUE = env.integer("INVOICE_DAYS_UNTIL_DUE", 15, minimum=1)
# How long the page of a top-up can be paid on; Stripe takes between half an hour and a day.
TOP_UP_MINUTES = env.integer("TOP_UP_MINUTES", 60, minimum=35)
# Means of payment of a top-up, as Stripe names them; what the company's Stripe account has.
TOP_UP_METHODS = env.words("TOP_UP_METHODS", "card,alipay,wechat_pay")
# Wrong voucher codes an organization may try in an hour.
VOUCHER_TRIES_PER_HOUR = env.integer("VOUCHER_TRIES_PER_HOUR", 10, minimum=1)
# Credit limit of a new organization, in minor units by currency. Zero: finance grants it by hand.
NEW_ORGANIZATION_CREDIT = {
    "CNY": env.integer("NEW_ORGANIZATION_CREDIT_CNY", 500_000 if DEBUG else 0, minimum=0),
    "USD": env.integer("NEW_ORGANIZATION_CREDIT_USD", 75_000 if DEBUG else 0, minimum=0),
}
# Shown at the foot of every page; empty hides it. ICP filing, public security filing, value-added telecom licence.
ICP_NUMBER = env.text("ICP_NUMBER")
POLICE_FILING_NUMBER = env.text("POLICE_FILING_NUMBER")
TELECOM_LICENCE = env.text("TELECOM_LICENCE")
SUPPORT_PHONE = env.text("SUPPORT_PHONE")
# Who sells: stands on printed invoices and quotes. Without a name, the product's.
SELLER = {
    "name": env.text("SELLER_NAME"),
    "tax_number": env.text("SELLER_TAX_NUMBER"),
    "address": env.text("SELLER_ADDRESS"),
}
# Shown on invoices that are paid by bank transfer: name, bank and account number.
BANK_ACCOUNT = env.text("BANK_ACCOUNT")

# --- logs ------------------------------------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO")},
    # httpx logs every request address at INFO; the engine's are noise and Stripe's hold ids.
    "loggers": {"httpx": {"level": "WARNING"}, "stripe": {"level": "WARNING"}},
}
