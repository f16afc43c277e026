"""What arrives at `notify_url`: read by `parse`, and confirmed by a `NotificationReceiver`.

A notification is a hint, never proof: anyone may send one. The interface shows neither its
payload nor its signature (section 6).
"""

from gateway_async.notifications.reading import Notification, SignatureVerifier, Verifier, parse
from gateway_async.notifications.receiver import NotificationReceiver

__all__ = ["Notification", "NotificationReceiver", "SignatureVerifier", "Verifier", "parse"]
