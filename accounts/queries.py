"""Questions about people and organizations."""

from allauth.account.models import EmailAddress

from accounts.models import User


def email_is_verified(user: User) -> bool:
    """Whether the person has proven that they read the mail of their login address."""
    return EmailAddress.objects.filter(user=user, email__iexact=user.email, verified=True).exists()
